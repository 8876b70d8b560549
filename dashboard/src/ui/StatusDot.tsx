import type { RunStatus } from "../api/types";

// A sign for each status, since colour alone is not enough.
const SIGNS: Record<RunStatus, string> = { running: "▶", completed: "✓", stopped: "■", failed: "✕", gone: "?" };

export function StatusDot({ status, withName = false }: { status: RunStatus; withName?: boolean }) {
  return (
    <span className={`status status-${status}`} title={status}>
      <span aria-hidden="true">{SIGNS[status] ?? "·"}</span>
      <span className={withName ? undefined : "visually-hidden"}>{status}</span>
    </span>
  );
}
