/** An empty conversation: what one can ask, as buttons that fill the box. */
import { UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { machinesQuery } from "../machines/queries.ts";
import classes from "./Welcome.module.css";

export function Welcome({ onChoose }: { onChoose: (text: string) => void }) {
  const machines = useQuery(machinesQuery).data?.items.filter((one) => one.status === "active");
  const name = (machines?.find((one) => one.presence === "online") ?? machines?.[0])?.name;
  const asks =
    name === undefined
      ? ["which machines do I have?"]
      : [`run uname -a on ${name}`, `run df -h on ${name}`, "which machines do I have?"];
  return (
    <div className={classes["welcome"]}>
      <h2 className={classes["title"]}>What should be done?</h2>
      <p className={classes["words"]}>
        Say it in the box below. Farhand does it on your machines, shows what happens while it
        happens, and asks when something is for you to decide.
      </p>
      <ul className={classes["asks"]}>
        {asks.map((ask) => (
          <li key={ask}>
            <UnstyledButton className={classes["ask"]} onClick={() => onChoose(ask)}>
              {ask}
            </UnstyledButton>
          </li>
        ))}
      </ul>
      {machines !== undefined && (
        <p className={classes["words"]}>
          {machines.length === 0
            ? "There is no machine yet. "
            : "It may also be done on another computer. "}
          <Link className={classes["link"]} to="/machines" search={{ add: true }}>
            Add a machine
          </Link>
        </p>
      )}
    </div>
  );
}
