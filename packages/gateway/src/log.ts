/** One line of JSON per request: which upstream, how many attempts, the outcome. Never a key, never a prompt. */
import { redact } from '@breakfall/faults'
import type { RelayOutcome, RepairNote } from '@breakfall/model/internal'
import { destination, type Logger, pino } from 'pino'

/** Receives one entry per request. */
export type GatewayLog = {
  info(entry: GatewayLogEntry, text: string): void
  warn(entry: GatewayLogEntry, text: string): void
}

/** The log entry of one request. */
export type GatewayLogEntry = {
  readonly requestId: string
  readonly path: string
  readonly status: number
  readonly method?: string | undefined
  readonly model?: string | undefined
  readonly stream?: boolean | undefined
  /** False if it is a request to a model that the gateway does not heal. */
  readonly healed?: boolean | undefined
  /** How often the last steps of the conversation repeat each other. */
  readonly loop?: number | undefined
  readonly ms?: number | undefined
  readonly firstByteMs?: number | undefined
  readonly bytes?: number | undefined
  readonly attempts?: number | undefined
  /** Categories, one for each attempt that failed. */
  readonly faults?: readonly string[] | undefined
  /** What was repaired in the conversation: `call_without_result messages.12`. */
  readonly repairs?: readonly string[] | undefined
  readonly upstream?: string | undefined
  readonly category?: string | undefined
  readonly errorRaw?: string | undefined
  readonly contentSent?: boolean | undefined
}

/** Synchronous: no line is lost when the process exits. */
export function stderrLogger(): Logger {
  return pino({ base: { name: 'breakfall-gateway' } }, destination({ fd: 2, sync: true }))
}

export type RequestLine = {
  readonly requestId: string
  readonly method: string
  readonly path: string
  readonly model: string | undefined
  readonly stream: boolean
  readonly ms: number
  readonly firstByteMs: number | undefined
  readonly bytes: number
  readonly loop?: number | undefined
}

export const repairText = ({ cause, place }: Pick<RepairNote, 'cause' | 'place'>): string => `${cause} ${place}`

export function logAnswer(logger: GatewayLog | undefined, line: RequestLine, outcome: RelayOutcome): void {
  if (logger === undefined) return
  const { status, fault, ledger, contentSent, repairs } = outcome
  const last = ledger.at(-1)
  const entry: GatewayLogEntry = {
    ...line,
    status,
    attempts: ledger.length,
    faults: ledger.flatMap((record) => (record.fault === null ? [] : [record.fault.category])),
    ...(repairs.length === 0 ? {} : { repairs: repairs.map(repairText) }),
    upstream: last === undefined ? undefined : redact(last.baseUrl),
    ...(fault === null ? {} : { category: fault.category, errorRaw: fault.errorRaw, contentSent }),
  }
  if (fault === null) logger.info(entry, ledger.length > 1 ? 'answered after faults' : 'answered')
  else if (fault.class === 'cancelled') logger.info(entry, 'the client left')
  else logger.warn(entry, 'failed')
}
