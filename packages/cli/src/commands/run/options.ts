/** The flags of `breakfall run`, and which of them contradict each other. */
import { Fault } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import type { ModelFlags } from '../../command-line/flags.ts'
import { cmd, shellQuoted } from '../../process/command-name.ts'
import type { Interrupt } from '../../terminal/interrupt.ts'
import type { GivenAnswer } from './start-turn.ts'

export type RunOptions = ModelFlags & {
  readonly continue?: boolean
  readonly session?: string
  readonly network?: string
  readonly isolation?: 'bwrap' | 'process'
  readonly env?: readonly string[]
  readonly mount?: readonly string[]
  readonly home?: 'real' | 'private'
  readonly memoryMb?: number
  readonly systemPrompt?: string
  readonly rehearsal?: boolean
  readonly faults?: string
  readonly parkWaitMs?: number | undefined
  readonly share?: boolean
  /** Only starts the turn. */
  readonly detach?: boolean
  /** Follows this turn. Set by `breakfall attach`. */
  readonly attach?: string
  /** Answers the call that waits for an approval. Set by `breakfall approve`. */
  readonly answer?: GivenAnswer
}

export type RunContext = Context & {
  readonly interrupt: Interrupt
  readonly options: RunOptions
}

/** The run continues an existing session. */
export const isContinuing = ({ options }: RunContext): boolean =>
  options.continue === true || options.session !== undefined

/** The flags that name the model server, for a command that continues the turn. Empty if they are not needed. */
export const serverFlags = ({ baseUrl, api }: RunOptions): string =>
  [
    ...(baseUrl === undefined ? [] : [`--base-url ${shellQuoted(baseUrl)}`]),
    ...(api === undefined ? [] : [`--api ${api}`]),
  ].join(' ')

/** Naming a model must not start a rehearsal, and naming faults must. */
export function refuseContradictions(context: RunContext, prompt: string | undefined): void {
  const { options } = context
  const flag = modelFlag(options)
  const refuse = (error: string): never => {
    throw new Fault('invalid_request', { error })
  }
  const setUp = isContinuing(context) ? setUpFlag(options) : undefined
  if (setUp !== undefined)
    refuse(`${setUp} sets up a new session, and this run continues one; omit it, or omit --continue and --session`)
  if (prompt?.trim() === '') refuse(`The prompt is empty; say what to do: ${cmd('run')} "PROMPT"`)
  if (options.rehearsal === true && flag !== undefined)
    refuse(`${flag} and --rehearsal contradict each other: a rehearsal uses a scripted model`)
  if (options.rehearsal === true && isContinuing(context))
    refuse('A rehearsal is always a new session; omit --continue and --session')
  if (options.rehearsal === true && options.detach === true)
    refuse("A rehearsal's model is in this program, so it ends with it; omit --detach")
  const needing = flag ?? (options.detach === true ? '--detach' : undefined)
  if (prompt === undefined && !isContinuing(context) && options.rehearsal !== true && needing !== undefined)
    refuse(`${needing} needs a prompt: ${cmd('run')} ${needing} … "PROMPT"`)
  if (options.faults !== undefined && options.rehearsal !== true && (prompt !== undefined || isContinuing(context)))
    refuse(`--faults works only with --rehearsal; to inject faults into your own model, use "${cmd('chaos')}"`)
}

/** Flags of a session that begins: a session keeps the box and the system prompt that it began with. */
function setUpFlag(options: RunOptions): string | undefined {
  const flags = ['isolation', 'network', 'env', 'mount', 'home', 'memoryMb', 'systemPrompt'] as const
  const given = flags.find((name) => options[name] !== undefined)
  return given && `--${given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** The flag that names a model or its server, if one does. */
export const modelFlag = ({ model, baseUrl, api, profile }: ModelFlags): string | undefined => {
  if (model !== undefined) return '--model'
  if (baseUrl !== undefined) return '--base-url'
  if (api !== undefined) return '--api'
  return profile === undefined ? undefined : '--profile'
}
