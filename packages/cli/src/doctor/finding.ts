/** The result of one check, and how to fix what it found. */
export type Finding = {
  readonly check: string
  readonly verdict: 'ok' | 'warn' | 'bad'
  readonly found: string
  readonly fix?: string | undefined
}
