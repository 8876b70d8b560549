/** The list of runs: filter, sort, fold seeds, select and compare. */
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { api } from "../api/client";
import type { Group, RunRow } from "../api/types";
import { clearNewRuns, useNewRuns } from "../live/sync";
import { completions, type Filter, formatFilter, parseFilter } from "../state/filter";
import { type Fields, flag, slots, text, texts, toggleSlot, useView } from "../state/url";
import { Command, shellQuoted } from "../ui/copy";
import { plain, short } from "../ui/format";
import { useKeys, useNow, useTitle } from "../ui/hooks";
import { Empty, ErrorNote, Skeleton } from "../ui/states";
import { COLUMNS, GroupRow, Row } from "./RunsRow";
import { useRowWindow } from "./rowWindow";

interface RunsView {
  where: string[];
  q: string;
  sort: string;
  fold: boolean;
  differ: boolean;
  hidden: boolean;
  runs: string[];
}
const FIELDS: Fields<RunsView> = {
  where: texts(),
  q: text(),
  sort: text("-created"),
  fold: flag(),
  differ: flag(),
  hidden: flag(),
  runs: slots(),
};

/** A row of the table: a run, or a group of seeds that can be unfolded. */
type Line = { kind: "run"; run: RunRow } | { kind: "group"; group: Group };

export function Runs() {
  useTitle("Runs");
  const [view, update] = useView(FIELDS);
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const fresh = useNewRuns();
  const now = useNow();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState(-1);
  const [isPointing, setPointing] = useState(false);
  const anchor = useRef(-1);
  const box = useRef<HTMLElement>(null);

  const filter = { where: view.where, q: view.q };
  const groups = useQuery({
    queryKey: ["groups", filter],
    queryFn: ({ signal }) => api.groups(filter, signal),
    enabled: view.fold || view.differ,
    placeholderData: keepPreviousData,
  });
  const columns = useMemo(() => {
    if (!view.differ || !groups.data) return [];
    return [...new Set(groups.data.groups.flatMap((group) => Object.keys(group.settings)))].sort().slice(0, 12);
  }, [view.differ, groups.data]);
  const query = { ...filter, sort: view.sort, columns: columns.join(",") };
  const pages = useInfiniteQuery({
    queryKey: ["runs", query],
    queryFn: ({ pageParam, signal }) => api.runs({ ...query, limit: 200, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor ?? undefined,
    placeholderData: keepPreviousData,
  });

  // Rows move only when nobody points at them; otherwise new runs wait for a click.
  useEffect(() => {
    if (fresh.length === 0 || isPointing || (box.current?.scrollTop ?? 0) > 0) return;
    const timer = setTimeout(() => {
      clearNewRuns();
      void client.invalidateQueries({ queryKey: ["runs"] });
    }, 1000);
    return () => clearTimeout(timer);
  }, [fresh, isPointing, client]);

  const runs = useMemo(
    () => pages.data?.pages.flatMap((page) => page.runs).filter((run) => view.hidden || !run.hidden) ?? [],
    [pages.data, view.hidden],
  );
  const lines = useMemo((): Line[] => {
    if (!view.fold || !groups.data) return runs.map((run) => ({ kind: "run", run }));
    const byId = new Map(runs.map((run) => [run.id, run]));
    return groups.data.groups.flatMap((group): Line[] => {
      const members = group.runs.flatMap((id) => byId.get(id) ?? []).map((run): Line => ({ kind: "run", run }));
      if (group.runs.length < 2) return members;
      return [{ kind: "group", group }, ...(open.has(group.runs[0]!) ? members : [])];
    });
  }, [view.fold, groups.data, runs, open]);

  const rows = useRowWindow(box, lines.length);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && rows.end > lines.length - 50) void fetchNextPage();
  }, [rows.end, lines.length, hasNextPage, isFetchingNextPage, fetchNextPage]);

  const idsOf = (line: Line | undefined): string[] =>
    line === undefined ? [] : line.kind === "run" ? [line.run.id] : line.group.runs;
  const toggle = (index: number, isRange: boolean) => {
    const range = isRange && anchor.current >= 0 ? [anchor.current, index].sort((a, b) => a - b) : [index, index];
    const ids = lines.slice(range[0], range[1]! + 1).flatMap(idsOf);
    const select = !ids.every((id) => view.runs.includes(id));
    const next = ids.reduce(
      (chosen, id) => (chosen.includes(id) === select ? chosen : toggleSlot(chosen, id)),
      view.runs,
    );
    anchor.current = index;
    setActive(index);
    update({ runs: next }, { replace: true });
  };
  // Stable, so that rows that did not change are not rendered again.
  const newestToggle = useRef(toggle);
  newestToggle.current = toggle;
  const onToggle = useCallback((index: number, isRange: boolean) => newestToggle.current(index, isRange), []);
  const fold = (group: Group) => {
    const next = new Set(open);
    if (!next.delete(group.runs[0]!)) next.add(group.runs[0]!);
    setOpen(next);
  };
  const enter = (line: Line | undefined) => {
    if (line?.kind === "run") navigate(`/runs/${encodeURIComponent(line.run.id)}`);
    else if (line) fold(line.group);
  };
  const move = (by: number) => {
    const next = Math.min(lines.length - 1, Math.max(0, active + by));
    setActive(next);
    rows.show(next);
  };
  const chosen = view.runs.filter(Boolean);
  const compare = () => chosen.length > 0 && navigate(`/compare?runs=${view.runs.join(",")}`);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: (event) => active >= 0 && toggle(active, event.shiftKey),
    " ": (event) => active >= 0 && toggle(active, event.shiftKey),
    Enter: (event) => {
      // A focused link or button does its own thing.
      if (!(event.target as HTMLElement).closest("a, button, summary")) enter(lines[active]);
    },
    c: compare,
    Escape: () => update({ runs: [] }, { replace: true }),
  });

  useEffect(() => {
    if (runs.length) performance.mark("hotloop:rows");
  }, [runs.length]);
  const total = pages.data?.pages[0]?.total ?? 0;
  const isFiltered = view.where.length > 0 || view.q !== "";
  const sortBy = (key: string) => update({ sort: view.sort === `-${key}` ? key : `-${key}` }, { replace: true });
  return (
    <div className="page runs">
      <header className="page-head">
        <h1>Runs</h1>
        <FilterBox filter={filter} onChange={(next) => update(next)} />
        <label className="check">
          <input type="checkbox" checked={view.fold} onChange={(event) => update({ fold: event.target.checked })} />
          Fold seeds
        </label>
        <label className="check">
          <input type="checkbox" checked={view.differ} onChange={(event) => update({ differ: event.target.checked })} />
          Only what differs
        </label>
        <label className="check">
          <input type="checkbox" checked={view.hidden} onChange={(event) => update({ hidden: event.target.checked })} />
          Hidden
        </label>
      </header>
      <div className="bar" aria-live="polite">
        <span>{pages.data && `${total} ${total === 1 ? "run" : "runs"}`}</span>
        {fresh.length > 0 && (
          <button
            type="button"
            onClick={() => {
              clearNewRuns();
              void client.invalidateQueries({ queryKey: ["runs"] });
            }}
          >
            {fresh.length} new
          </button>
        )}
        {chosen.length > 0 && (
          <>
            <span>{chosen.length} selected</span>
            <button type="button" className="primary" onClick={compare}>
              Compare
            </button>
            <button type="button" onClick={() => update({ runs: [] }, { replace: true })}>
              Clear
            </button>
          </>
        )}
        <Command label="Show as command" text={listCommand(filter, view.sort)} />
      </div>
      {pages.error && !pages.data ? (
        <ErrorNote error={pages.error} onRetry={() => void pages.refetch()} />
      ) : !pages.data ? (
        <Skeleton rows={10} />
      ) : (
        <>
          {pages.error && <ErrorNote error={pages.error} onRetry={() => void pages.refetch()} />}
          {pages.data.pages[0]?.stale && <p className="banner">The store is away: these rows were known last.</p>}
          {lines.length === 0 ? (
            isFiltered ? (
              <NoHits filter={filter} onChange={(next) => update(next)} />
            ) : (
              <FirstRun />
            )
          ) : (
            <section
              className="rows scroll"
              ref={box}
              aria-label="Runs"
              // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
              tabIndex={0}
              onMouseEnter={() => setPointing(true)}
              onMouseLeave={() => setPointing(false)}
            >
              <table aria-rowcount={lines.length + 1}>
                <thead>
                  <tr>
                    <th scope="col">
                      <span className="visually-hidden">Selected</span>
                    </th>
                    {COLUMNS.map(({ name, sort, className }) => (
                      <th
                        key={name}
                        scope="col"
                        className={className}
                        aria-sort={
                          view.sort === sort ? "ascending" : view.sort === `-${sort}` ? "descending" : undefined
                        }
                      >
                        {sort ? (
                          <button type="button" className="sort" onClick={() => sortBy(sort)}>
                            {name}
                            <span aria-hidden="true">
                              {view.sort === sort ? " ▲" : view.sort === `-${sort}` ? " ▼" : ""}
                            </span>
                          </button>
                        ) : (
                          name
                        )}
                      </th>
                    ))}
                    {columns.map((name) => (
                      <th key={name} scope="col">
                        <button type="button" className="sort" onClick={() => sortBy(name)}>
                          {name}
                        </button>
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.before > 0 && <tr className="spacer" style={{ height: rows.before }} />}
                  {lines.slice(rows.start, rows.end).map((line, offset) => {
                    const index = rows.start + offset;
                    const common = {
                      index,
                      now,
                      isActive: index === active,
                      isSelected: idsOf(line).every((id) => view.runs.includes(id)),
                      onToggle,
                    };
                    if (line.kind === "group") {
                      const key = `group ${line.group.runs[0]}`;
                      const isOpen = open.has(line.group.runs[0]!);
                      return (
                        <GroupRow
                          key={key}
                          {...common}
                          group={line.group}
                          columns={columns}
                          isOpen={isOpen}
                          onFold={fold}
                        />
                      );
                    }
                    const values = columns.map((name) => {
                      const at = pages.data.pages[0]!.columns.indexOf(name);
                      return at < 0 ? "" : plain(line.run.values[at]);
                    });
                    return <Row key={line.run.id} {...common} run={line.run} values={values} />;
                  })}
                  {rows.after > 0 && <tr className="spacer" style={{ height: rows.after }} />}
                </tbody>
              </table>
            </section>
          )}
        </>
      )}
    </div>
  );
}

/** The command that prints the same list. */
function listCommand({ where, q }: Filter, sort: string): string {
  const conditions = q ? [...where, `name=*${q}*`] : where;
  const parts = conditions.map((condition) => ` ${shellQuoted(condition)}`);
  return `hotloop runs list${parts.join("")}${sort === "-created" ? "" : ` --sort ${shellQuoted(sort)}`}`;
}

function FilterBox({ filter, onChange }: { filter: Filter; onChange(filter: Filter): void }) {
  const shown = formatFilter(filter);
  const [draft, setDraft] = useState(shown);
  const [last, setLast] = useState(shown);
  if (last !== shown) {
    // Back, or a link, changed the filter.
    setLast(shown);
    setDraft(shown);
  }
  const keys = useQuery({ queryKey: ["keys"], queryFn: api.keys, staleTime: 300_000 });
  const names = useMemo(() => Object.values(keys.data ?? {}).flat() as string[], [keys.data]);
  const near = useDeferredValue(draft);
  const onKey = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key !== "Escape") return;
    setDraft(shown);
    event.currentTarget.blur();
  };
  return (
    <search>
      <form
        className="filter"
        onSubmit={(event) => {
          event.preventDefault();
          onChange(parseFilter(draft));
        }}
      >
        <input
          data-search
          aria-label="Filter runs"
          placeholder="env=cartpole best>=400 some text"
          title="Conditions as in hotloop runs --where, and text to find in names (/)"
          spellCheck={false}
          autoComplete="off"
          list="filter-keys"
          value={draft}
          onChange={(event) => {
            setDraft(event.target.value);
            if (event.target.value === "") onChange({ where: [], q: "" });
          }}
          onKeyDown={onKey}
        />
        <datalist id="filter-keys">
          {completions(near, names).map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      </form>
    </search>
  );
}

function NoHits({ filter, onChange }: { filter: Filter; onChange(filter: Filter): void }) {
  // The condition without which most runs fit is the one to drop.
  const parts: { name: string; without: Filter }[] = [
    ...filter.where.map((name, at) => ({
      name,
      without: { ...filter, where: filter.where.filter((_, i) => i !== at) },
    })),
    ...(filter.q ? [{ name: filter.q, without: { ...filter, q: "" } }] : []),
  ];
  const counts = useQuery({
    queryKey: ["no hits", filter],
    queryFn: () =>
      Promise.all(parts.map(({ without }) => api.runs({ ...without, limit: 1 }).then((page) => page.total))),
  });
  const most = counts.data && Math.max(...counts.data);
  const worst = most ? parts[counts.data!.indexOf(most)] : undefined;
  return (
    <Empty>
      <h2>No run fits</h2>
      {worst && (
        <p>
          <code>{worst.name}</code> excludes most: without it {short(most)} {most === 1 ? "fits" : "fit"}.{" "}
          <button type="button" onClick={() => onChange(worst.without)}>
            Drop it
          </button>
        </p>
      )}
      <button type="button" onClick={() => onChange({ where: [], q: "" })}>
        Show all runs
      </button>
    </Empty>
  );
}

function FirstRun() {
  return (
    <Empty>
      <h2>No runs yet</h2>
      <p>Either of these makes one; it appears here while it trains:</p>
      <Command text="hotloop train cartpole" />
      <Command text="hotloop train pendulum --minutes 1" />
    </Empty>
  );
}
