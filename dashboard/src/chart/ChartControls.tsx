/** Settings that all charts of a page share: the x-axis, smoothing and the window. */
import { type ChartView, type Update, X_AXES, type XAxis } from "../state/url";
import { formatX } from "./Chart";

const NAMES: Record<XAxis, string> = {
  step: "Steps",
  time: "Wall time",
  seconds: "Training time",
  episodes: "Episodes",
};

export function ChartControls({ view, update }: { view: ChartView; update: Update<ChartView> }) {
  const isZoomed = view.from !== null || view.to !== null;
  return (
    <>
      <label>
        x{" "}
        <select value={view.x} onChange={(event) => update({ x: event.target.value as XAxis, from: null, to: null })}>
          {X_AXES.map((axis) => (
            <option key={axis} value={axis}>
              {NAMES[axis]}
            </option>
          ))}
        </select>
      </label>
      <label className="check">
        <input type="checkbox" checked={view.logx} onChange={(event) => update({ logx: event.target.checked })} />
        log x
      </label>
      <label className="smooth">
        Smoothing{" "}
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={view.smooth}
          aria-valuetext={String(view.smooth)}
          onChange={(event) => update({ smooth: Number(event.target.value) }, { replace: true })}
        />
        <span className="smooth-value">{view.smooth || "off"}</span>
      </label>
      {isZoomed && (
        <button type="button" onClick={() => update({ from: null, to: null })} title="Double click on a chart, or Esc">
          {view.from === null ? "start" : formatX(view.x, view.from)} to{" "}
          {view.to === null ? "end" : formatX(view.x, view.to)} ✕
        </button>
      )}
    </>
  );
}
