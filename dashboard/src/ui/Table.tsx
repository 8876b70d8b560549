/** Parts of tables that many pages share. */
import type { ReactNode } from "react";
import { plain } from "./format";

/** The title of a column of text, or of numbers. */
type Column = string | { num: string; title?: string };

export function Head({ columns }: { columns: Column[] }) {
  return (
    <thead>
      <tr>
        {columns.map((column) =>
          typeof column === "string" ? (
            <th key={column} scope="col">
              {column}
            </th>
          ) : (
            <th key={column.num} scope="col" className="num" title={column.title}>
              {column.num}
            </th>
          ),
        )}
      </tr>
    </thead>
  );
}

/** A region that scrolls, and can therefore be reached by keyboard. */
export function ScrollRegion({
  label,
  className,
  children,
}: {
  label: string;
  className?: string;
  children: ReactNode;
}) {
  return (
    <section
      className={className ? `${className} scroll` : "scroll"}
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
    >
      {children}
    </section>
  );
}

/** A table with a row for each named thing and a column for each run. */
export function RunColumns({
  label,
  of,
  runs,
  rows,
  className,
}: {
  label: string;
  /** What a row is. */
  of: string;
  runs: readonly { id: string; name: string }[];
  rows: readonly { name: string; values: readonly string[] }[];
  className?: "num";
}) {
  return (
    <ScrollRegion label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">{of}</th>
            {runs.map((run) => (
              <th key={run.id} scope="col" className={className}>
                <bdi>{run.name}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, values }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {values.map((value, index) => (
                <td key={index} className={className}>
                  <bdi>{value}</bdi>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** The settings in which runs differ. */
export function SettingColumns({
  runs,
  settings,
}: {
  runs: readonly { id: string; name: string }[];
  settings: readonly { key: string; values: readonly unknown[] }[];
}) {
  const rows = settings.map(({ key, values }) => ({ name: key, values: values.map(plain) }));
  return <RunColumns label="Settings that differ" of="Setting" runs={runs} rows={rows} />;
}

/** A table of names and values. */
export function Facts({ entries }: { entries: readonly (readonly [string, unknown])[] }) {
  return (
    <table>
      <tbody>
        {entries.map(([key, value]) => (
          <tr key={key}>
            <th scope="row">{key}</th>
            <td>
              <bdi>{plain(value)}</bdi>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
