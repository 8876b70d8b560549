/** Loading, failed and empty states. */
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { ApiError } from "../api/client";

/** Placeholder rows, after a moment: what loads at once never flashes. */
export function Skeleton({ rows = 3 }: { rows?: number }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skeleton" aria-busy="true">
      {isShown && Array.from({ length: rows }, (_, index) => <div key={index} />)}
      <span className="visually-hidden">Loading</span>
    </div>
  );
}

export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const near = error instanceof ApiError ? error.near : [];
  return (
    <div className="error-note" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {near.length > 0 && <p>Near: {near.slice(0, 5).join(", ")}</p>}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Retry
        </button>
      )}
    </div>
  );
}

/** A query's data once it is there; until then its state. */
export function Loaded<T>({
  query,
  rows = 3,
  children,
}: {
  query: UseQueryResult<T>;
  rows?: number;
  children(data: T): ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton rows={rows} />;
}

export const Empty = ({ children }: { children: ReactNode }) => <div className="empty">{children}</div>;
