/** Words of people and models: their line breaks, and `code` between backticks; nothing else. */
import classes from "./Prose.module.css";

export function Prose({ text }: { text: string }) {
  return (
    <p className={classes["prose"]}>
      {text.split(/(`[^`\n]+`)/).map((part, index) =>
        part.length > 2 && part.startsWith("`") && part.endsWith("`") ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text keep their places
          <code key={index}>{part.slice(1, -1)}</code>
        ) : (
          part
        ),
      )}
    </p>
  );
}
