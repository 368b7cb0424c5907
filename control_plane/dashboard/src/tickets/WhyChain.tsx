/** Why a ticket exists, as a chain: what was asked, how it was judged, which policy, which mandate. */
import { IconFileCertificate, IconGavel, IconMessageCircle, IconScale } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Schemas } from "../api/client.ts";
import { machinesQuery } from "../machines/queries.ts";
import { Time } from "../ui/Time.tsx";
import classes from "./WhyChain.module.css";
import { ruleWords, scopeWords, verdictWords } from "./why_words.ts";

export function WhyChain({ why }: { why: Schemas["Why"] }) {
  const machines = useQuery(machinesQuery).data?.items ?? [];
  const { mandate } = why;
  const scope = scopeWords(
    mandate.scope,
    mandate.granted_by,
    (id) => machines.find((machine) => machine.id === id)?.name ?? "a machine that is gone",
  );
  return (
    <ol className={classes["chain"]}>
      <Link icon={<IconMessageCircle size={18} stroke={1.7} />} name="Asked">
        {why.triggers.map((trigger) => (
          <div key={trigger.id} className={classes["asked"]}>
            <p className={classes["quote"]}>{trigger.text}</p>
            <p className={classes["small"]}>
              {trigger.sender}, <Time at={trigger.received_at} />
            </p>
          </div>
        ))}
      </Link>
      <Link icon={<IconScale size={18} stroke={1.7} />} name="Judged">
        <p>{verdictWords(why)}</p>
        <p className={classes["small"]}>{why.verdict_reason || `because ${ruleWords(why)}`}</p>
      </Link>
      <Link icon={<IconGavel size={18} stroke={1.7} />} name="Policy">
        <p>Version {why.policy_version}</p>
      </Link>
      <Link icon={<IconFileCertificate size={18} stroke={1.7} />} name="Mandate">
        <p>
          {scope.what} {scope.where}, {scope.howFar}
        </p>
        <p className={classes["small"]}>
          granted by {mandate.granted_by},{" "}
          {mandate.withdrawn_at === null ? (
            <>
              until <Time at={mandate.valid_until} />
            </>
          ) : (
            <>
              withdrawn <Time at={mandate.withdrawn_at} />
            </>
          )}
        </p>
        <p className={classes["hash"]} title={mandate.mandate_hash}>
          {mandate.mandate_hash.slice(0, 12)}
        </p>
      </Link>
    </ol>
  );
}

function Link({ icon, name, children }: { icon: ReactNode; name: string; children: ReactNode }) {
  return (
    <li>
      <span className={classes["icon"]} aria-hidden="true">
        {icon}
      </span>
      <h3 className={classes["name"]}>{name}</h3>
      <div className={classes["body"]}>{children}</div>
    </li>
  );
}
