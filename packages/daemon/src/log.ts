/** The daemon's log: no secret in it, and one line per failed request. */
import type { Fault } from '@breakfall/faults'
import { type Logger, pino } from 'pino'
import type { Secrets } from '@breakfall/engine'
import type { DaemonOptions } from './options.ts'

export function logger(options: DaemonOptions, secrets: Secrets): Logger {
  const out = options.logTo ?? process.stderr
  return pino(
    { level: options.logLevel ?? 'info', base: null, serializers: { err: pino.stdSerializers.errWithCause } },
    { write: (line: string) => void out.write(secrets.scrubLine(line)) },
  )
}

export function logFault(log: Logger, fault: Fault, call: object): void {
  const line = { ...call, category: fault.category, err: fault.class === 'internal' ? fault : undefined }
  if (fault.class === 'internal') log.error(line, 'a request failed')
  else log.debug(line, 'a request was refused')
}
