/** Settings: those that differ from the defaults first, then all of them. */
import { useState } from "react";
import type { RunDetail } from "../../api/types";
import { plain } from "../../ui/format";
import { Empty } from "../../ui/states";

export function Config({ run }: { run: RunDetail }) {
  const [search, setSearch] = useState("");
  const fits = (key: string) => key.toLowerCase().includes(search.trim().toLowerCase());
  const changed = run.changed.filter(({ key }) => fits(key));
  const parts = Object.entries(run.config)
    .map(([part, values]) => [part, Object.entries(values).filter(([key]) => fits(`${part}.${key}`))] as const)
    .filter(([, values]) => values.length > 0);
  return (
    <div className="config">
      <div className="bar">
        <input
          data-search
          className="search"
          type="search"
          aria-label="Find settings"
          placeholder="Find settings (/)"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      </div>
      <h2>Different from the defaults</h2>
      {changed.length === 0 ? (
        <Empty>None.</Empty>
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Setting</th>
                <th scope="col">Value</th>
                <th scope="col">Default</th>
              </tr>
            </thead>
            <tbody>
              {changed.map(({ key, value, default: usual }) => (
                <tr key={key}>
                  <th scope="row">{key}</th>
                  <td>
                    <bdi>{plain(value)}</bdi>
                  </td>
                  <td>{plain(usual)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {parts.map(([part, values]) => (
        <details key={part} className="section" open={search !== ""}>
          <summary>
            <h2>{part}</h2>
          </summary>
          <table>
            <tbody>
              {values.map(([key, value]) => (
                <tr key={key}>
                  <th scope="row">{key}</th>
                  <td>
                    <bdi>{plain(value)}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      ))}
      <details className="section">
        <summary>
          <h2>Provenance</h2>
        </summary>
        <table>
          <tbody>
            {Object.entries(run.facts).map(([key, value]) => (
              <tr key={key}>
                <th scope="row">{key}</th>
                <td>
                  <bdi>{plain(value)}</bdi>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </div>
  );
}
