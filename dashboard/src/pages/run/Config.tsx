/** Settings: those that differ from the defaults first, then all of them. */
import { useState } from "react";
import type { RunDetail } from "../../api/types";
import { plain } from "../../ui/format";
import { Empty } from "../../ui/states";
import { Facts, Head } from "../../ui/Table";

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
            <Head columns={["Setting", "Value", "Default"]} />
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
          <Facts entries={values} />
        </details>
      ))}
      <details className="section">
        <summary>
          <h2>Provenance</h2>
        </summary>
        <Facts entries={Object.entries(run.facts)} />
      </details>
    </div>
  );
}
