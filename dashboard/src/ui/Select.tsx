/** A labelled choice among names. */
export function Select<T extends string>({
  label,
  value,
  choices,
  onChange,
}: {
  label: string;
  value: T;
  choices: readonly T[];
  onChange: (chosen: T) => void;
}) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.target.value as T)}>
        {choices.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
