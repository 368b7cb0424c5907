/** The page: its views for who is signed in, else the way to sign in. */
import { RouterProvider } from "@tanstack/react-router";
import { router } from "../router.tsx";
import { useSession } from "../session/session.ts";
import { SignInPage } from "./SignInPage.tsx";

export function App() {
  const session = useSession();
  if (session.state === "signed_in") return <RouterProvider router={router} />;
  return <SignInPage session={session} />;
}
