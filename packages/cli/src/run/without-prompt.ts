/** `run` without a prompt: a rehearsal for whoever looks for the first time, a mistake for whoever has a model for it. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { LoadedConfig } from '../config/load.ts'
import { chooseModel, type ModelChoice } from '../model/choose.ts'
import type { RunContext } from './options.ts'
import { isPiped } from './prompt.ts'
import { checkoutOf, howToSet, quoted, rehearse } from '../rehearsal/rehearse.ts'

type Env = RunContext['env']

export async function runWithoutPrompt(context: RunContext): Promise<number> {
  const { out, env, loaded } = context
  const model = await namedModel(loaded, env)
  // `npm start` shows what this is on every machine, whatever is set there.
  if (model !== undefined && checkoutOf(env) === undefined) throw noPrompt(model)
  out.say('no prompt was given, so this is a rehearsal: a scripted model on a task of its own')
  if (isPiped()) out.say('what is piped in was not read; breakfall run - takes the prompt from there')
  const code = await rehearse(context, undefined)
  if (code === EXIT_CODES.finished) for (const line of afterRehearsal(env, model)) out.say(line)
  return code
}

/** What was seen, where, and what comes next: with the same words that started it. Pure. */
export function afterRehearsal(env: Env, model: string | undefined): readonly string[] {
  const checkout = checkoutOf(env)
  const command = checkout === undefined ? 'breakfall run' : `npm --prefix ${quoted(checkout)} start --`
  return [
    `\nThat was in a scratch folder, which is removed again. Now a task of yours, in your folder, with ${model ?? 'your model'}:`,
    `  ${command} "make the failing test pass"`,
    ...(model === undefined ? [howToSet(env)] : []),
  ]
}

// ---- details ----

/** The model that a prompt would go to, in words; undefined where none is set. Nobody is asked for it. */
async function namedModel(loaded: LoadedConfig, env: Env): Promise<string | undefined> {
  const unasked = (): Promise<undefined> => Promise.resolve(undefined)
  const choice = await chooseModel(loaded, env, unasked)
  if (choice === undefined)
    return loaded.config.model?.serve === undefined ? undefined : 'the model that is served here'
  return wordsFor(choice)
}

const wordsFor = ({ name, isGuessed, baseUrl, because }: ModelChoice): string =>
  `${isGuessed ? 'the model' : name} at ${baseUrl} (${because})`

const noPrompt = (model: string): Fault =>
  new Fault('invalid_request', {
    error: `a prompt is needed for ${model}: breakfall run "PROMPT", or breakfall run - to take it from a file or a pipe. Without a model: breakfall run --rehearsal`,
  })
