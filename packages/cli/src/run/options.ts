/** What `breakfall run` was asked for, and what of it does not go together. */
import { Fault } from '@breakfall/faults'
import type { Interrupt } from '../process/interrupt.ts'
import type { Context } from '../program.ts'

export type RunOptions = {
  readonly continue?: boolean
  readonly session?: string
  readonly network?: 'none' | 'host'
  readonly isolation?: 'bwrap' | 'process'
  readonly rehearsal?: boolean
  readonly faults?: string
  readonly parkWaitMs: number
}

export type RunContext = Context & {
  readonly interrupt: Interrupt
  readonly run: RunOptions
}

export const MODEL_FLAGS = { model: '--model', baseUrl: '--base-url', api: '--api', profile: '--profile' } as const

export const goesOn = ({ run }: RunContext): boolean => run.continue === true || run.session !== undefined

/** Whoever names a model must not get a rehearsal, and whoever names faults must get one. */
export function refuseContradictions(context: RunContext, prompt: string | undefined): void {
  const { run, options } = context
  const named = Object.entries(MODEL_FLAGS).find(([key]) => options[key] !== undefined)?.[1]
  const wrong = (error: string): never => {
    throw new Fault('invalid_request', { error })
  }
  if (prompt?.trim() === '') wrong('the prompt is empty; say what is to be done: breakfall run "PROMPT"')
  if (run.rehearsal === true && named !== undefined)
    wrong(`${named} and --rehearsal do not go together: a rehearsal has a scripted model of its own`)
  if (run.rehearsal === true && goesOn(context))
    wrong('a rehearsal is a session of its own: leave --continue and --session out')
  if (prompt === undefined && !goesOn(context) && run.rehearsal !== true && named !== undefined)
    wrong(`${named} needs a prompt: breakfall run ${named} … "PROMPT"`)
  if (run.faults !== undefined && run.rehearsal !== true && (prompt !== undefined || goesOn(context)))
    wrong('--faults is for rehearsals: add --rehearsal. Before a model of yours put "breakfall chaos"')
}
