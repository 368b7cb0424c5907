/** An address that shows nothing. */
import { IconMapPinOff } from "@tabler/icons-react";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { Empty } from "../ui/Empty.tsx";
import { Page } from "../ui/Page.tsx";
import { PageHeader } from "../ui/PageHeader.tsx";

export function NotFound() {
  return (
    <Page>
      <PageHeader title="Nothing here" />
      <Empty
        icon={<IconMapPinOff size={28} stroke={1.6} />}
        title="This address shows nothing"
        action={<ButtonLink to="/chat">Go to the chat</ButtonLink>}
      >
        The link may be old, or mistyped.
      </Empty>
    </Page>
  );
}
