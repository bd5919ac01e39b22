/** What every command gets: its output, and the resolved configuration. */
import type { ResolvedConfig } from './config/resolve.ts'
import type { Output } from './render/output.ts'

export type Context = {
  readonly out: Output
  readonly config: ResolvedConfig
  /** Reads the configuration again, with the same flags: a daemon follows its files. */
  readonly reload: () => ResolvedConfig
}
