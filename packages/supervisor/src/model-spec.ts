/** What to run as a model server. A bad spec is refused up front, and every wrong field is named. */
import type { FieldError } from '@breakfall/faults'
import { refuse } from './resolve-spec.ts'
import type { Alive, SuperviseSpec } from './spec.ts'
import { shown } from './spec-errors.ts'

export type ModelServerSpec = Omit<SuperviseSpec, 'args' | 'env' | 'ready' | 'alive' | 'launch' | 'oneshot'> & {
  /** `port` is a free port, chosen for each run. */
  readonly args: (run: { readonly port: number; readonly host: string }) => readonly string[]
  readonly env?:
    | SuperviseSpec['env']
    | ((run: { readonly port: number; readonly host: string }) => Record<string, string>)
  /** Returns 2xx once the model is loaded. `/health` by default. */
  readonly healthPath?: string
  readonly host?: string
  /** Keeps probing the health path once the server is ready, and ends a server that hangs. On by default. */
  readonly watchHealth?: boolean
  /** How often, how patiently and how many times in a row before a server that shows no life counts as hung. */
  readonly health?: Pick<Alive, 'everyMs' | 'timeoutMs' | 'failuresMax'>
}

export type ResolvedModelSpec = ModelServerSpec &
  Required<Pick<ModelServerSpec, 'healthPath' | 'host' | 'watchHealth' | 'health'>>

/** Checks the fields of a model server. `supervise` checks the others. */
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
    'a path that starts with "/"',
  )
  check('host', optional(isHost), 'a host name or an address')
  check(
    'watchHealth',
    optional((value) => typeof value === 'boolean'),
    'true or false',
  )
  check(
    'health',
    optional((value) => typeof value === 'object' && value !== null), // its fields are checked at each launch
    'an object with everyMs, timeoutMs and failuresMax',
  )
  for (const [field, value] of Object.entries(input)) {
    if (!OWN_FIELDS.has(field)) continue
    errors.push({ field, expected: 'left out: a model server sets it itself', got: shown(value) })
  }
  if (errors.length > 0) refuse(errors)
  return {
    ...input,
    healthPath: input.healthPath ?? '/health',
    host: input.host ?? '127.0.0.1',
    watchHealth: input.watchHealth ?? true,
    health: input.health ?? {},
  }
}

// ---- details ----

const OWN_FIELDS: ReadonlySet<string> = new Set(['ready', 'alive', 'launch', 'oneshot'])

const isHost = (value: unknown): boolean =>
  typeof value === 'string' &&
  URL.canParse(`http://${value.includes(':') ? `[${value}]` : value}:1/`) &&
  !/[/?#@\s]/.test(value)
