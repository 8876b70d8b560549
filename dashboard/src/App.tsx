/** The frame around all pages: navigation, keys, banners. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useState } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { api } from "./api/client";
import { useServerVersion, useStreamState } from "./live/sync";
import { Runs } from "./pages/Runs";
import { setPreference, type Theme, usePreferences } from "./state/preferences";
import { Dialog } from "./ui/Dialog";
import { clock } from "./ui/format";
import { useAlertBadge, useKeys } from "./ui/hooks";
import { Skeleton } from "./ui/states";

const Run = lazy(() => import("./pages/Run"));
const Compare = lazy(() => import("./pages/Compare"));
const Sweeps = lazy(() => import("./pages/Sweeps"));
const Sweep = lazy(() => import("./pages/Sweep"));
const Jobs = lazy(() => import("./pages/Jobs"));
const Job = lazy(() => import("./pages/Job"));
const Alerts = lazy(() => import("./pages/Alerts"));
const System = lazy(() => import("./pages/System"));

const PAGES = [
  { path: "/runs", name: "Runs", key: "r" },
  { path: "/compare", name: "Compare", key: "c" },
  { path: "/sweeps", name: "Sweeps", key: "s" },
  { path: "/jobs", name: "Jobs", key: "j" },
  { path: "/alerts", name: "Alerts", key: "a" },
  { path: "/system", name: "System", key: "y" },
];
const THEMES: Theme[] = ["system", "light", "dark"];

export function App() {
  const [location, navigate] = useLocation();
  const [showsHelp, setHelp] = useState(false);
  const [showsSignIn, setSignIn] = useState(false);
  const { theme } = usePreferences();
  const status = useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => api.status(signal),
    refetchInterval: 15_000,
  });
  const nextTheme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
  useKeys({
    "?": () => setHelp(true),
    t: () => setPreference("theme", nextTheme),
    "/": () => document.querySelector<HTMLInputElement>("[data-search]")?.focus(),
    ...Object.fromEntries(PAGES.map(({ path, key }) => [`g ${key}`, () => navigate(path)])),
  });
  const unseen = status.data?.alerts_unseen ?? 0;
  useAlertBadge(unseen);
  return (
    <div className="app">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages">
        <Link href="/runs" className="brand" aria-label="Hotloop: runs">
          <img src="/favicon.svg" alt="" width="26" height="26" />
          <span>Hotloop</span>
        </Link>
        {PAGES.map(({ path, name }) => (
          <Link key={path} href={path} aria-current={location.startsWith(path) ? "page" : undefined}>
            {name}
            {name === "Alerts" && unseen > 0 && (
              <span className="count">
                {unseen}
                <span className="visually-hidden"> new</span>
              </span>
            )}
          </Link>
        ))}
        <span className="rail-end">
          <StreamDot />
          {status.data && !status.data.can_write && !status.data.read_only && (
            <button type="button" className="quiet" onClick={() => setSignIn(true)} title="Allow changes">
              <span aria-hidden="true">🔒</span>
              <span className="visually-hidden">Allow changes</span>
            </button>
          )}
          <button
            type="button"
            className="quiet"
            onClick={() => setPreference("theme", nextTheme)}
            title={`Theme: ${theme} (t)`}
            aria-label={`Theme: ${theme}; switch to ${nextTheme}`}
          >
            {theme === "system" ? "◐" : theme === "light" ? "☀" : "☾"}
          </button>
          <button
            type="button"
            className="quiet"
            onClick={() => setHelp(true)}
            aria-label="Keyboard help"
            title="Keys (?)"
          >
            ?
          </button>
        </span>
      </nav>
      <div className="content">
        <Banners awaySince={status.data?.store.away_since ?? null} version={status.data?.version} />
        <main id="main" tabIndex={-1}>
          <Suspense fallback={<Skeleton rows={6} />}>
            <Switch>
              <Route path="/runs" component={Runs} />
              <Route path="/runs/:run">{({ run }) => <Run key={run} id={decodeURIComponent(run)} />}</Route>
              <Route path="/compare" component={Compare} />
              <Route path="/sweeps" component={Sweeps} />
              <Route path="/sweeps/:sweep">
                {({ sweep }) => <Sweep key={sweep} name={decodeURIComponent(sweep)} />}
              </Route>
              <Route path="/jobs" component={Jobs} />
              <Route path="/jobs/:job">{({ job }) => <Job key={job} number={Number(job)} />}</Route>
              <Route path="/alerts" component={Alerts} />
              <Route path="/system" component={System} />
              <Route path="/">
                <Redirect to="/runs" replace />
              </Route>
              <Route>
                <div className="empty">
                  <h1>No such page</h1>
                  <p>
                    <Link href="/runs">All runs</Link>
                  </p>
                </div>
              </Route>
            </Switch>
          </Suspense>
        </main>
      </div>
      {showsHelp && <Help onClose={() => setHelp(false)} />}
      {showsSignIn && <SignIn onClose={() => setSignIn(false)} />}
    </div>
  );
}

function StreamDot() {
  const state = useStreamState();
  const text = { live: "Live", connecting: "Connecting", lost: "Not live: reconnecting" }[state];
  return (
    <span className={`stream stream-${state}`} role="status" title={text}>
      <span aria-hidden="true">{state === "live" ? "●" : "○"}</span>
      <span className="visually-hidden">{text}</span>
    </span>
  );
}

function Banners({ awaySince, version }: { awaySince: number | null; version: string | undefined }) {
  const state = useStreamState();
  const now = useServerVersion();
  const [first, setFirst] = useState<string | undefined>(undefined);
  const [lostAt, setLostAt] = useState<number | null>(null);
  useEffect(() => {
    if (version && first === undefined) setFirst(version);
  }, [version, first]);
  useEffect(() => setLostAt((before) => (state === "lost" ? (before ?? Date.now() / 1000) : null)), [state]);
  const newer = now ?? version;
  return (
    <div aria-live="polite">
      {awaySince !== null && (
        <p className="banner">The store is away since {clock(awaySince)}: showing what is known.</p>
      )}
      {lostAt !== null && (
        <p className="banner">The server does not answer since {clock(lostAt)}: showing what is known.</p>
      )}
      {first && newer && newer !== first && (
        <p className="banner">
          The server has version {newer} now.{" "}
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
    </div>
  );
}

const KEYS: [string, string][] = [
  ["?", "This help"],
  ["/", "Search or filter"],
  ["g r, g c, g s, g j, g a, g y", "Runs, Compare, Sweeps, Jobs, Alerts, System"],
  ["j, k", "Next and previous row"],
  ["x, Space", "Select the row (Shift selects a range)"],
  ["Enter", "Open the row; on a chart, watch the policy at the crosshair"],
  ["c", "Compare the selected runs"],
  ["[, ]", "The run before, the run after"],
  ["← →", "On a chart: move the crosshair (Shift: ten at once); Home, End"],
  ["Space , .", "In Watch: play or pause, one step back, one step forward"],
  ["t", "Theme: system, light, dark"],
  ["Esc", "Close; on a chart, show everything again"],
];

function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <table className="keys">
        <tbody>
          {KEYS.map(([keys, effect]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{effect}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}

/** Reading is free on this machine; changing anything needs the token of the server. */
function SignIn({ onClose }: { onClose(): void }) {
  const client = useQueryClient();
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  return (
    <Dialog title="Allow changes" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          api
            .signIn({ token: token.trim() })
            .then(() => client.invalidateQueries({ queryKey: ["status"] }))
            .then(onClose)
            .catch((problem: Error) => setError(problem.message));
        }}
      >
        <p>
          Stopping, verifying, playing, tagging and deleting need the server's token. Open the link that{" "}
          <code>hotloop serve</code> printed, or paste the content of <code>HOTLOOP_HOME/server-token</code>:
        </p>
        <label>
          Token{" "}
          <input type="password" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} />
        </label>{" "}
        <button type="submit" className="primary">
          Allow
        </button>
        {error && (
          <p role="alert" className="level-error">
            {error}
          </p>
        )}
      </form>
    </Dialog>
  );
}
