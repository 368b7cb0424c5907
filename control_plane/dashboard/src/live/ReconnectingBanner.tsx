import { Loader, Text } from "@mantine/core";
import { useReconnecting } from "./live.ts";
import classes from "./ReconnectingBanner.module.css";

/** Says that the server is away; lies over the page, so that nothing moves. */
export function ReconnectingBanner() {
  const isAway = useReconnecting();
  return (
    <div className={classes["place"]} role="status">
      {isAway && (
        <div className={classes["banner"]}>
          <Loader size={12} color="gray" aria-hidden />
          <Text size="sm">reconnecting…</Text>
        </div>
      )}
    </div>
  );
}
