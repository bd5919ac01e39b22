/** Where a daemon is, and how to get in. */
export type DaemonAddress = {
  /** Without a trailing slash: `http://127.0.0.1:4711`. */
  readonly url: string
  readonly token: string
  /** Where the token came from. Named in the error if the daemon rejects it. */
  readonly tokenSource?: string | undefined
}
