/** What every command gets: its output, and the resolved configuration. */
import type { Fault } from '@breakfall/faults'
import type { ResolvedConfig } from './config/resolve.ts'
import type { Output } from './render/output.ts'

export type Context = {
  readonly out: Output
  readonly config: ResolvedConfig
  /** What is wrong with a config file, for a command that continues without the files. */
  readonly configFault?: Fault | undefined
  /** Reads the configuration again, with the same flags: a daemon follows its files. */
  readonly reload: () => ResolvedConfig
}
