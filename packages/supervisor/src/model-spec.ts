/** What to run as a model server. Bad specs are refused at the door, with every wrong field named. */
import type { FieldError } from '@breakfall/faults'
import { refuse, type SuperviseSpec } from './spec.ts'
import { isPort, shown } from './spec-errors.ts'

export type ModelServerSpec = Omit<SuperviseSpec, 'args' | 'env' | 'ready' | 'alive' | 'launch' | 'oneshot'> & {
  /** `port` is free at that moment, and another one for each run. */
  readonly args: (run: { readonly port: number; readonly host: string }) => readonly string[]
  readonly env?:
    | SuperviseSpec['env']
    | ((run: { readonly port: number; readonly host: string }) => Record<string, string>)
  /** Answers 2xx once the model is loaded. */
  readonly healthPath?: string
  readonly host?: string
  /** A port that must be this one; free ports are chosen where it is missing. */
  readonly port?: number
  /** Asks the health path again and again once it is ready. Off by default: a busy server may answer it late. */
  readonly watchHealth?: boolean
}

export type ResolvedModelSpec = ModelServerSpec & Required<Pick<ModelServerSpec, 'healthPath' | 'host' | 'watchHealth'>>

/** Looks at its own fields; the others are `supervise`'s to look at. */
export function resolveModelSpec(input: ModelServerSpec): ResolvedModelSpec {
  if (typeof input !== 'object' || input === null) {
    refuse([{ field: 'spec', expected: 'an object', got: shown(input) }])
  }
  const errors: FieldError[] = []
  const check = (field: keyof ModelServerSpec, holds: (value: unknown) => boolean, expected: string): void => {
    const value: unknown = input[field]
    if (!holds(value)) errors.push({ field, expected, got: shown(value) })
  }
  const optional = (holds: (value: unknown) => boolean) => (value: unknown) => value === undefined || holds(value)
  check('args', (value) => typeof value === 'function', 'a function of { port, host }')
  check(
    'env',
    optional((value) => typeof value === 'function' || (typeof value === 'object' && value !== null)),
    'an object, or a function of { port, host }',
  )
  check(
    'healthPath',
    optional((value) => typeof value === 'string' && value.startsWith('/')),
    'a path that begins with "/"',
  )
  check('host', optional(isHost), 'a host name or an address')
  check('port', optional(isPort), 'a port from 1 to 65535')
  check(
    'watchHealth',
    optional((value) => typeof value === 'boolean'),
    'true or false',
  )
  for (const field of ['ready', 'alive', 'launch', 'oneshot']) {
    if (field in input)
      errors.push({
        field,
        expected: 'left out: a model server has its own',
        got: shown((input as Record<string, unknown>)[field]),
      })
  }
  if (errors.length > 0) refuse(errors)
  return {
    ...input,
    healthPath: input.healthPath ?? '/health',
    host: input.host ?? '127.0.0.1',
    watchHealth: input.watchHealth ?? false,
  }
}

// ---- details ----

const isHost = (value: unknown): boolean =>
  typeof value === 'string' &&
  URL.canParse(`http://${value.includes(':') ? `[${value}]` : value}:1/`) &&
  !/[/?#@\s]/.test(value)
