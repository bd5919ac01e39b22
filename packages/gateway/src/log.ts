/** One line of JSON per request: who was asked, how often, what came of it. Never a key, never a prompt. */
import type { RelayOutcome } from '@breakfall/model'
import { destination, type Logger, pino } from 'pino'

/** Synchronous, so that no line is lost when the process ends. */
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
}

export function logAnswer(logger: Logger | undefined, line: RequestLine, outcome: RelayOutcome): void {
  if (logger === undefined) return
  const { status, fault, ledger, contentSent } = outcome
  const last = ledger.at(-1)
  const entry = {
    ...line,
    status,
    attempts: ledger.length,
    faults: ledger.flatMap((record) => (record.fault === null ? [] : [record.fault.category])),
    upstream: last?.baseUrl,
    ...(fault === null ? {} : { category: fault.category, errorRaw: fault.errorRaw, contentSent }),
  }
  if (fault === null) logger.info(entry, ledger.length > 1 ? 'answered after faults' : 'answered')
  else if (fault.class === 'cancelled') logger.info(entry, 'the client left')
  else logger.warn(entry, 'failed')
}
