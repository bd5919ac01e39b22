/** What one look at the machine found, and how to mend it. */
export type Finding = {
  readonly check: string
  readonly verdict: 'ok' | 'warn' | 'bad'
  readonly found: string
  readonly fix?: string | undefined
}
