/** Fills in the defaults of a spec. A bad spec is refused up front, and every wrong field is named. */
import path from 'node:path'
import { Fault, type FieldError } from '@breakfall/faults'
import { systemClock } from './clock.ts'
import { type Launch, type ResolvedSpec, SUPERVISOR_DEFAULTS, type SuperviseSpec } from './spec.ts'
import { launchErrors, specErrors } from './spec-errors.ts'

export function resolveSpec(input: SuperviseSpec): ResolvedSpec {
  const errors = specErrors(input, Object.keys(SUPERVISOR_DEFAULTS))
  if (errors.length > 0) refuse(errors)
  return {
    ...input,
    name: input.name ?? path.basename(input.command),
    args: [...(input.args ?? [])],
    cwd: path.resolve(input.cwd ?? '.'),
    env: { ...input.env },
    inheritEnv: input.inheritEnv ?? true,
    ready: input.ready ?? { kind: 'spawned' },
    oneshot: input.oneshot ?? false,
    stdin: input.stdin ?? 'pipe',
    channel: input.channel ?? 'fd3',
    stdoutClosed: input.stdoutClosed ?? 'ignore',
    limits: { ...SUPERVISOR_DEFAULTS, ...input.limits },
    clock: input.clock ?? systemClock,
  }
}

export function refuse(errors: readonly FieldError[]): never {
  throw new Fault('invalid_request', { error: `this process cannot be supervised: ${listed(errors)}`, errors })
}

/** Throws a fault that names every wrong field of what the `launch` hook returned. */
export function assertLaunch(launched: unknown): asserts launched is Launch | null | undefined {
  const errors = launchErrors(launched)
  if (errors.length > 0) throw new Fault('invalid_request', { error: listed(errors), errors })
}

const listed = (errors: readonly FieldError[]): string =>
  errors.map((error) => `${error.field} must be ${error.expected}, got ${error.got}`).join('; ')
