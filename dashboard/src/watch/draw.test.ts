import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Frames, Shape } from "../api/types";
import { aim, drawFrame, drawShape, seatPosition } from "./draw";

/** A context that writes down the calls it gets. */
function recorder() {
  const calls: [string, ...unknown[]][] = [];
  const context = new Proxy({} as Record<string, unknown>, {
    get:
      (_target, name: string) =>
      (...values: unknown[]) =>
        calls.push([name, ...values]),
    set: (_target, name: string, value) => {
      calls.push([`${name}=`, value]);
      return true;
    },
  }) as unknown as CanvasRenderingContext2D;
  return { calls, context };
}

describe("the camera", () => {
  it("shows the whole world, upright", () => {
    const camera = aim([-2, 0, 2, 1], 400, 400, null);
    expect(camera.scale).toBe(100);
    // The world's bottom left corner is lower on the canvas than its top right one.
    expect([camera.x - 200, camera.y]).toEqual([0, 250]);
    expect([camera.x + 200, camera.y - 100]).toEqual([400, 150]);
  });

  it("never looks beyond the edge of the world when it follows a seat", () => {
    const point = fc.tuple(
      fc.double({ min: -50, max: 50, noNaN: true }),
      fc.double({ min: -50, max: 50, noNaN: true }),
    );
    fc.assert(
      fc.property(point, (seat) => {
        const camera = aim([-10, -10, 10, 10], 300, 300, [seat[0], seat[1]]);
        const left = -camera.x / camera.scale;
        const top = camera.y / camera.scale;
        expect(left).toBeGreaterThanOrEqual(-10 - 1e-9);
        expect(left + 300 / camera.scale).toBeLessThanOrEqual(10 + 1e-9);
        expect(top).toBeLessThanOrEqual(10 + 1e-9);
        expect(top - 300 / camera.scale).toBeGreaterThanOrEqual(-10 - 1e-9);
      }),
    );
  });
});

describe("shapes", () => {
  const camera = { scale: 10, x: 100, y: 100 };
  const drawn = (shape: Shape) => {
    const { calls, context } = recorder();
    drawShape(context, shape, camera);
    return calls;
  };

  it("are drawn in the world's units, y upwards", () => {
    expect(drawn(["disc", [1, 2], 0.5, [1, 2, 3]])).toContainEqual(["arc", 110, 80, 5, 0, 2 * Math.PI]);
    const line = drawn([
      "line",
      [
        [0, 0],
        [1, 1],
      ],
      0.2,
      [0, 0, 0],
    ]);
    expect(line).toContainEqual(["lineTo", 110, 90]);
    expect(line).toContainEqual(["lineWidth=", 2]);
    expect(
      drawn([
        "polygon",
        [
          [0, 0],
          [1, 0],
          [1, 1],
        ],
        [9, 9, 9],
      ]),
    ).toContainEqual(["fillStyle=", "rgb(9 9 9)"]);
    expect(drawn(["label", [1, 1], "<b>", 1, [0, 0, 0]])).toContainEqual(["fillText", "<b>", 110, 90]);
  });
});

it("a frame draws its shapes in their order, and the last frame stays when another episode is longer", () => {
  const { calls, context } = recorder();
  const canvas = { width: 100, height: 100, getContext: () => context } as unknown as HTMLCanvasElement;
  const episode = {
    bounds: [0, 0, 1, 1],
    paper: [255, 255, 255],
    shapes: [
      ["disc", [0, 0], 1, [1, 1, 1]],
      ["disc", [0, 0], 1, [2, 2, 2]],
    ],
    frames: [[0], [1, 0]],
    seat_at: null,
  } as unknown as Frames;
  drawFrame(canvas, episode, 99, null);
  const fills = calls.filter(([name]) => name === "fillStyle=").map(([, value]) => value);
  expect(fills).toEqual(["rgb(255 255 255)", "rgb(2 2 2)", "rgb(1 1 1)"]);
});

it("a seat is where its number is drawn", () => {
  const episode = {
    shapes: [
      ["label", [1, 2], "0", 1, [0, 0, 0]],
      ["label", [3, 4], "1", 1, [0, 0, 0]],
    ],
    frames: [[0, 1]],
    seat_at: null,
  } as unknown as Frames;
  expect(seatPosition(episode, 0, 1)).toEqual([3, 4]);
  expect(seatPosition(episode, 0, 2)).toBeNull();
  expect(seatPosition({ ...episode, seat_at: [[[5, 6]]] }, 0, 0)).toEqual([5, 6]);
});
