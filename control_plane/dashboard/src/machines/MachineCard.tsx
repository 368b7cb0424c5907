/** One machine: is it here, what is it doing, what may be done there, what is it. */
import {
  IconBrandApple,
  IconDeviceDesktop,
  IconServer2,
  IconShieldCheck,
  IconShieldOff,
} from "@tabler/icons-react";
import { useId } from "react";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { machineLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { factLines, systemLine, trustSentence } from "./facts.ts";
import { labelLines } from "./labels.ts";
import { MachineActions } from "./MachineActions.tsx";
import classes from "./MachineCard.module.css";
import { MachineWork } from "./MachineWork.tsx";
import type { Machine } from "./queries.ts";

export function MachineCard({ machine }: { machine: Machine }) {
  const nameId = useId();
  const trust = trustSentence(machine);
  const Shield = machine.trust_level === "off" ? IconShieldOff : IconShieldCheck;
  const labels = labelLines(machine.labels);
  return (
    <article className={classes["card"]} aria-labelledby={nameId}>
      <div className={classes["head"]}>
        <div className={classes["emblem"]} data-here={machine.presence === "online" || undefined}>
          <SystemIcon machine={machine} />
        </div>
        <div className={classes["names"]}>
          <h2 id={nameId} className={classes["name"]}>
            {machine.name}
          </h2>
          <p className={classes["system"]}>{systemLine(machine)}</p>
        </div>
        <Status look={machineLook(machine)} />
      </div>

      <MachineWork machine={machine} />

      <p className={classes["trust"]}>
        <Shield size={18} stroke={1.7} aria-hidden="true" />
        <span>
          <b>{trust.word}</b>: {trust.sentence}
        </span>
      </p>

      <dl className={classes["facts"]}>
        {factLines(machine).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt>Last seen</dt>
          <dd>
            <LastSeen machine={machine} />
          </dd>
        </div>
        {labels.length > 0 && (
          <div>
            <dt>Labels</dt>
            <dd>{labels.join(", ")}</dd>
          </div>
        )}
      </dl>

      <div className={classes["foot"]}>
        <ButtonLink
          to="/chat"
          search={{ text: `on ${machine.name}: ` }}
          variant="default"
          size="sm"
          aria-label={`Ask it to do something: ${machine.name}`}
        >
          Ask it to do something
        </ButtonLink>
        <div className={classes["actions"]}>
          <MachineActions machine={machine} />
        </div>
      </div>
    </article>
  );
}

/** When it was last heard; of one that is here the server stores that only now and then. */
function LastSeen({ machine }: { machine: Machine }) {
  if (machine.presence === "online") return "now";
  return machine.seen_at === null ? "never" : <Time at={machine.seen_at} as="ago" />;
}

function SystemIcon({ machine }: { machine: Machine }) {
  const props = { size: 22, stroke: 1.6, "aria-hidden": true } as const;
  if (machine.facts["os"] === "macos") return <IconBrandApple {...props} />;
  if (machine.facts["os"] === "linux") return <IconServer2 {...props} />;
  return <IconDeviceDesktop {...props} />;
}
