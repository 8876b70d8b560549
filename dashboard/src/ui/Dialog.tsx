import { type ReactNode, useEffect, useRef } from "react";

/** A modal dialog; Escape and a click beside it close it. */
export function Dialog({ title, onClose, children }: { title: string; onClose(): void; children: ReactNode }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog by itself
    <dialog
      ref={element}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => event.target === element.current && element.current.close()}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" className="quiet" aria-label="Close" onClick={() => element.current?.close()}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
