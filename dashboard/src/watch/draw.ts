/** An episode on a canvas, from the drawing data that the terminal and videos use too. */
import type { Colour, Frames, Point, Shape } from "../api/types";

export interface Camera {
  /** Device pixels per unit of the world. */
  scale: number;
  /** Where the world's origin is on the canvas. */
  x: number;
  y: number;
}

// How much larger a followed seat is shown.
const CLOSE = 2.5;

/** The whole world in the middle of the canvas, or the surroundings of a point, never beyond the edge. */
export function aim(
  bounds: readonly [number, number, number, number],
  width: number,
  height: number,
  centre: Point | null,
): Camera {
  const [left, bottom, right, top] = bounds;
  const fit = Math.min(width / (right - left), height / (top - bottom));
  const scale = centre ? fit * CLOSE : fit;
  const middle = (low: number, high: number, visible: number, wanted: number | null) => {
    if (wanted === null || visible >= high - low) return (low + high) / 2;
    return Math.min(high - visible / 2, Math.max(low + visible / 2, wanted));
  };
  const x = middle(left, right, width / scale, centre?.[0] ?? null);
  const y = middle(bottom, top, height / scale, centre?.[1] ?? null);
  return { scale, x: width / 2 - x * scale, y: height / 2 + y * scale };
}

const css = (colour: Colour) => `rgb(${colour[0]} ${colour[1]} ${colour[2]})`;

export function drawShape(context: CanvasRenderingContext2D, shape: Shape, camera: Camera): void {
  const { scale } = camera;
  const at = ([x, y]: Point): Point => [camera.x + x * scale, camera.y - y * scale];
  const path = (points: readonly Point[]) => {
    context.beginPath();
    for (const point of points) context.lineTo(...at(point));
  };
  switch (shape[0]) {
    case "line":
      path(shape[1]);
      context.lineWidth = shape[2] * scale;
      context.lineCap = context.lineJoin = "round";
      context.strokeStyle = css(shape[3]);
      context.stroke();
      break;
    case "disc":
      context.beginPath();
      context.arc(...at(shape[1]), shape[2] * scale, 0, 2 * Math.PI);
      context.fillStyle = css(shape[3]);
      context.fill();
      break;
    case "polygon":
      path(shape[1]);
      context.fillStyle = css(shape[2]);
      context.fill();
      break;
    case "label":
      context.font = `${shape[3] * scale}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillStyle = css(shape[4]);
      context.fillText(shape[2], ...at(shape[1]));
      break;
  }
}

/** Where a seat is: as the server says, or else where the drawing has the seat's number. */
export function seatPosition(episode: Frames, frame: number, seat: number): Point | null {
  const known = episode.seat_at?.[frame]?.[seat];
  if (known) return known;
  for (const index of episode.frames[frame] ?? []) {
    const shape = episode.shapes[index];
    if (shape?.[0] === "label" && shape[2] === String(seat)) return shape[1];
  }
  return null;
}

/** One moment of an episode; a frame is a list of entries of the episode's table of shapes. */
export function drawFrame(canvas: HTMLCanvasElement, episode: Frames, frame: number, seat: number | null): void {
  const context = canvas.getContext("2d");
  if (context === null || episode.bounds === null) return;
  const at = Math.min(frame, episode.frames.length - 1);
  const centre = seat === null ? null : seatPosition(episode, at, seat);
  const camera = aim(episode.bounds, canvas.width, canvas.height, centre);
  context.fillStyle = css(episode.paper);
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const index of episode.frames[at] ?? []) {
    const shape = episode.shapes[index];
    if (shape) drawShape(context, shape, camera);
  }
}
