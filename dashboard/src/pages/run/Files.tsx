/** Checkpoints, replays and exports. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, exportUrl, replayFileUrl } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { bytes, dateTime, short, whole } from "../../ui/format";
import { Empty, Loaded } from "../../ui/states";
import { Head } from "../../ui/Table";

export function Files({ run }: { run: RunDetail }) {
  const checkpoints = useQuery({ queryKey: ["checkpoints", run.id], queryFn: () => api.checkpoints(run.id) });
  const replays = useQuery({
    queryKey: ["replays", run.id],
    queryFn: () => api.replays(run.id),
    enabled: run.folder_here,
  });
  const watch = (source: string) => `/runs/${encodeURIComponent(run.id)}?tab=watch&a=${encodeURIComponent(source)}`;
  return (
    <>
      {run.path && run.folder_here ? (
        <p>
          Folder: <code>{run.path}</code>
        </p>
      ) : (
        <p className="banner">Its folder is on {run.host}: checkpoints and replays can be used there only.</p>
      )}
      <h2>Checkpoints</h2>
      <Loaded query={checkpoints}>
        {({ checkpoints: all }) =>
          all.length === 0 ? (
            <Empty>None yet.</Empty>
          ) : (
            <div className="scroll">
              <table>
                <Head columns={[{ num: "Step" }, "Saved", "Holds", { num: "Size" }, "Watch"]} />
                <tbody>
                  {all.map((checkpoint) => (
                    <tr key={checkpoint.name}>
                      <th scope="row" className="num">
                        {whole(checkpoint.step)}
                      </th>
                      <td>{checkpoint.time ? dateTime(checkpoint.time) : "–"}</td>
                      <td>
                        {checkpoint.policy_only ? "policy" : "policy and state"}
                        {checkpoint.is_best && <span className="badge good">best</span>}
                        {!checkpoint.exists && <span className="note"> removed since</span>}
                      </td>
                      <td className="num">{bytes(checkpoint.bytes)}</td>
                      <td>{checkpoint.exists && <Link href={watch(`checkpoint:${checkpoint.name}`)}>Watch</Link>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {run.folder_here && (
        <>
          <h2>Replays</h2>
          <Loaded query={replays}>
            {({ replays: all }) =>
              all.length === 0 ? (
                <Empty>None kept. Runs keep the best episodes of their evaluations.</Empty>
              ) : (
                <ul className="plain">
                  {all.map((replay) => (
                    <li key={replay.name}>
                      <Link href={watch(`replay:${replay.name}`)}>{replay.name}</Link> return {short(replay.return)},{" "}
                      {whole(replay.steps)} steps, {bytes(replay.bytes)},{" "}
                      <a href={replayFileUrl(run.id, replay.name)} download>
                        download
                      </a>
                    </li>
                  ))}
                </ul>
              )
            }
          </Loaded>
        </>
      )}
      <h2>Export</h2>
      <ul className="plain">
        {["csv", "json", "parquet"].map((format) => (
          <li key={format}>
            <a href={exportUrl({ run: [run.id], format, what: "points" })} download>
              Every point as {format.toUpperCase()}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
