/** Farhand's mark: an F whose arm reaches out to a point far away. */

interface LogoProps {
  size?: number;
}

export function Logo({ size = 28 }: LogoProps) {
  return (
    <svg width={size} height={size} viewBox="5 2.5 26 26" fill="none" aria-hidden="true">
      <path
        d="M7 27V12.5A6.5 6.5 0 0 1 13.5 6H20"
        stroke="currentColor"
        strokeWidth="3.4"
        strokeLinecap="round"
      />
      <path d="M7 17h9" stroke="currentColor" strokeWidth="3.4" strokeLinecap="round" />
      <circle cx="26" cy="6" r="3.4" fill="var(--fh-accent)" />
    </svg>
  );
}
