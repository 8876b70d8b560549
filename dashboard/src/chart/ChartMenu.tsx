/** The menu of a chart: scales, and ways to take the chart elsewhere. */
import { useId } from "react";
import type { SeriesEntry } from "../api/types";
import type { XAxis } from "../state/url";
import { copyText, saveFile, useFlash } from "../ui/copy";
import { SERIES_HEADER, seriesRows, toCsv } from "./data";

interface Props {
  title: string;
  entries: readonly SeriesEntry[];
  x: XAxis;
  logY: boolean;
  onLogY(on: boolean): void;
  cutOutliers: boolean;
  onCutOutliers(on: boolean): void;
  asTable: boolean;
  onAsTable(on: boolean): void;
  command: string | undefined;
  exportUrl: string | undefined;
  canvas(): HTMLCanvasElement | null;
}

export function ChartMenu(props: Props) {
  const id = useId();
  const [word, flash] = useFlash();
  const csv = () => toCsv(SERIES_HEADER, seriesRows(props.entries));
  const item = (label: string, action: () => void) => (
    <button type="button" onClick={action}>
      {label}
    </button>
  );
  return (
    <div className="menu-anchor">
      <button type="button" className="quiet" popoverTarget={id} aria-label={`Menu of the chart ${props.title}`}>
        ⋯
      </button>
      <div id={id} popover="auto" className="menu">
        <label>
          <input type="checkbox" checked={props.logY} onChange={(event) => props.onLogY(event.target.checked)} />
          Logarithmic y
        </label>
        <label>
          <input
            type="checkbox"
            checked={props.cutOutliers}
            onChange={(event) => props.onCutOutliers(event.target.checked)}
          />
          Cut outliers
        </label>
        <label>
          <input type="checkbox" checked={props.asTable} onChange={(event) => props.onAsTable(event.target.checked)} />
          As a table
        </label>
        {item("Copy CSV", () => void copyText(csv()).then(() => flash("CSV copied")))}
        {item("Save CSV", () => saveFile(`${props.title}.csv`, new Blob([csv()], { type: "text/csv" })))}
        {props.exportUrl && (
          <a href={props.exportUrl} download>
            All points as CSV
          </a>
        )}
        {item(
          "Save PNG",
          () => void savePng(props.title, props.canvas()).then((saved) => saved || flash("No picture")),
        )}
        {item("Copy link", () => void copyText(location.href).then(() => flash("Link copied")))}
        {props.command &&
          item("Copy as command", () => void copyText(props.command!).then(() => flash("Command copied")))}
        {props.command && <code className="menu-code">{props.command}</code>}
        <output aria-live="polite">{word}</output>
      </div>
    </div>
  );
}

/** The chart with its title, on the page's background. */
async function savePng(title: string, chart: HTMLCanvasElement | null): Promise<boolean> {
  if (chart === null) return false;
  const ratio = devicePixelRatio;
  const head = 28 * ratio;
  const picture = document.createElement("canvas");
  picture.width = chart.width;
  picture.height = chart.height + head;
  const context = picture.getContext("2d")!;
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--panel");
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  context.fillText(title, 12 * ratio, 19 * ratio);
  context.drawImage(chart, 0, head);
  const blob = await new Promise<Blob | null>((resolve) => picture.toBlob(resolve, "image/png"));
  if (blob) saveFile(`${title}.png`, blob);
  return blob !== null;
}
