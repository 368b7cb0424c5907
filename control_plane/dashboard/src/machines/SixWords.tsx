/** The six words, large, numbered in the order in which the machine shows them. */
import classes from "./SixWords.module.css";

interface SixWordsProps {
  words: string[];
}

export function SixWords({ words }: SixWordsProps) {
  return (
    <ol className={classes["words"]} aria-label="Six words">
      {words.map((word, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a word may come twice, its place may not
        <li key={index}>
          <span className={classes["number"]} aria-hidden="true">
            {index + 1}
          </span>
          {word}
        </li>
      ))}
    </ol>
  );
}
