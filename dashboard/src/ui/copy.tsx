/** Copying to the clipboard and saving files. */
import { useEffect, useRef, useState } from "react";

/** Copies text; without permission for the clipboard a hidden text field does it. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name.replaceAll(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Shows a word for a moment after something was done. */
export function useFlash(): [string, (word: string) => void] {
  const [word, setWord] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return [
    word,
    (next) => {
      setWord(next);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setWord(""), 1500);
    },
  ];
}

/** A word of a shell command. */
export const shellQuoted = (word: string): string =>
  /^[\w.,:/=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** A command that is copied by a click. */
export function Command({ text, label }: { text: string; label?: string }) {
  const [word, flash] = useFlash();
  return (
    <button
      type="button"
      className="command"
      title={`Copy: ${text}`}
      aria-label={label ? `${label}: copy the command ${text}` : `Copy the command ${text}`}
      onClick={() => void copyText(text).then(() => flash("copied"))}
    >
      <code>{label ?? text}</code>
      <span aria-live="polite">{word}</span>
    </button>
  );
}
