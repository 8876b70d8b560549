/** Tags, a note, pinned and hidden: what a person adds to a run. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { ErrorNote } from "../../ui/states";

export function Marks({ run, canWrite }: { run: RunDetail; canWrite: boolean }) {
  const client = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [isEditing, setEditing] = useState(false);
  const [tags, setTags] = useState("");
  const [note, setNote] = useState("");
  const save = (change: Parameters<typeof api.mark>[1]) =>
    api
      .mark(run.id, change)
      .then((next) => {
        setError(null);
        setEditing(false);
        client.setQueryData(["run", run.id], next);
        return client.invalidateQueries({ queryKey: ["runs"] });
      })
      .catch(setError);
  return (
    <div className="marks">
      {run.tags.map((tag) => (
        <span key={tag} className="tag">
          <bdi>{tag}</bdi>
        </span>
      ))}
      {run.note && (
        <span className="note">
          <bdi>{run.note}</bdi>
        </span>
      )}
      {canWrite && !isEditing && (
        <>
          <button
            type="button"
            className="quiet"
            onClick={() => {
              setTags(run.tags.join(", "));
              setNote(run.note);
              setEditing(true);
            }}
          >
            {run.tags.length || run.note ? "Edit tags and note" : "Add tags or a note"}
          </button>
          <button
            type="button"
            className="quiet"
            aria-pressed={run.pinned}
            onClick={() => void save({ pinned: !run.pinned })}
          >
            {run.pinned ? "Unpin" : "Pin"}
          </button>
          <button
            type="button"
            className="quiet"
            aria-pressed={run.hidden}
            onClick={() => void save({ hidden: !run.hidden })}
          >
            {run.hidden ? "Show in lists" : "Hide from lists"}
          </button>
        </>
      )}
      {isEditing && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const names = tags.split(",").map((tag) => tag.trim());
            void save({ tags: [...new Set(names.filter(Boolean))], note });
          }}
        >
          <label>
            Tags, separated by commas <input value={tags} onChange={(event) => setTags(event.target.value)} />
          </label>
          <label>
            Note <textarea rows={2} value={note} onChange={(event) => setNote(event.target.value)} />
          </label>
          <button type="submit" className="primary">
            Save
          </button>
          <button type="button" onClick={() => setEditing(false)}>
            Cancel
          </button>
        </form>
      )}
      {error !== null && <ErrorNote error={error} />}
    </div>
  );
}
