/** The result of one check, and how to fix what it found. */
import type { FaultReport } from '@breakfall/faults'

export type Finding = {
  readonly check: string
  readonly verdict: 'ok' | 'warn' | 'bad'
  readonly found: string
  readonly fix?: string | undefined
  /** How long a model server took to load. */
  readonly loadMs?: number | undefined
  /** The last lines that it printed. */
  readonly said?: readonly string[] | undefined
  readonly fault?: FaultReport | undefined
}
