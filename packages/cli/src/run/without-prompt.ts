/** `run` without a prompt: an error, but a rehearsal if `npm start` started it. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { ResolvedConfig } from '../config/resolve.ts'
import { describeModel } from '../model/choose.ts'
import { howToSetModel, rehearse } from '../rehearsal/rehearse.ts'
import { shellQuoted } from '../render/shell-quoted.ts'
import type { RunContext } from './options.ts'
import { isPiped } from './prompt.ts'
import { cmd } from '../process/command-name.ts'

export async function runWithoutPrompt(context: RunContext): Promise<number> {
  const { out, config } = context
  const model = config.model.kind === 'unset' ? undefined : describeModel(config.model)
  // `npm start` is the demo on every machine, even if a model is set.
  if (config.checkout === undefined) throw promptMissing(model)
  out.say('no prompt given, so this is a rehearsal: a scripted model on a sample task')
  if (isPiped()) out.say(`standard input was not read; to read the prompt from it: ${cmd('run')} -`)
  const code = await rehearse(context, undefined)
  if (code === EXIT_CODES.finished) for (const line of afterRehearsal(config, model)) out.say(line)
  return code
}

/** What to do next, as a command that works from the current folder. Pure. */
export function afterRehearsal(
  { checkout }: Pick<ResolvedConfig, 'checkout'>,
  model: string | undefined,
): readonly string[] {
  const command = checkout === undefined ? cmd('run') : `npm --prefix ${shellQuoted(checkout)} start --`
  return [
    `\nThat ran in a scratch folder, which is now removed. To run your own task in your folder with ${model ?? 'your model'}:`,
    `  ${command} "make the failing test pass"`,
    ...(model === undefined ? [howToSetModel(checkout)] : []),
  ]
}

// ---- details ----

const promptMissing = (model: string | undefined): Fault =>
  new Fault('invalid_request', {
    error: `A prompt is missing${model === undefined ? '' : ` for ${model}`}: ${cmd('run')} "PROMPT", or ${cmd('run')} - to read it from a file or a pipe. Without a model: ${cmd('run')} --rehearsal`,
  })
