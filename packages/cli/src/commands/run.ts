/** `breakfall run`: which model, which daemon, which session. The turn itself is followed in `run.ts`. */
import { Fault, isFault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import { DaemonClient } from '../daemon/client.ts'
import { firstModel } from '../model/first-listed.ts'
import { Interrupt } from '../process/interrupt.ts'
import { findDaemon, findViewer } from '../daemon/find.ts'
import { chooseModel, listModels, type ModelChoice } from '../model/choose.ts'
import type { Context } from '../program.ts'
import { RunDaemon } from '../run/daemon.ts'
import { agreedServer } from '../run/agreed-model.ts'
import { goesOn, refuseContradictions, type RunContext, type RunOptions } from '../run/options.ts'
import { ownDaemonFor } from '../run/own-daemon.ts'
import { promptOf } from '../run/prompt.ts'
import { runWithoutPrompt } from '../run/without-prompt.ts'
import { rehearse, rehearseInstead } from '../rehearsal/rehearse.ts'
import { createFor, sessionFor } from '../run/session.ts'
import { prepareStateDir, tokenWarnings } from '../process/start-errors.ts'
import { currentFolder, isWritable, refuseWide } from '../workspace/work-folder.ts'
import { grantWorkspace } from '../workspace/allowed.ts'
import { run } from '../run/turn.ts'

export async function runCommand(given: Context, words: readonly string[]): Promise<number> {
  given.out.outlivesItsReader()
  using interrupt = new Interrupt(given.out)
  const context = { ...given, interrupt, run: given.options as unknown as RunOptions }
  const prompt = await interrupt.unlessAsked(promptOf(words, interrupt.signal))
  refuseContradictions(context, prompt)
  if (context.run.rehearsal === true) return await rehearse(context, prompt)
  if (prompt !== undefined || goesOn(context)) return await runHere(context, prompt)
  return await runWithoutPrompt(context)
}

// ---- details, in the order they are used above ----

async function runHere(context: RunContext, prompt: string | undefined): Promise<number> {
  const { out, interrupt, stateDir, env } = context
  const folder = currentFolder()
  lookAt(folder, context)
  const theirs = await interrupt.unlessAsked(findDaemon(stateDir, env))
  const choice = theirs === undefined ? await interrupt.unlessAsked(chosen(context)) : undefined
  const serves = context.loaded.config.model?.serve !== undefined
  if (theirs === undefined && choice === undefined && !serves && !goesOn(context)) return rehearseInstead(context)
  if (theirs === undefined && choice === undefined && !serves) await refuseNothingThere(context, folder)
  if (choice !== undefined && !goesOn(context)) out.say(`model: ${modelWords(choice)} (${choice.because})`)
  if (!env['BREAKFALL_URL']) grantWorkspace(prepareStateDir(stateDir), folder) // also for the daemon that takes it up if it parks
  await using daemon = new RunDaemon({
    stateDir,
    env,
    own: async () => ownDaemonFor(context, choice ?? (await chosen(context)), folder),
    onTheirs: async (address) => {
      const server = await agreedServer(context, address)
      out.say(
        `using the daemon at ${address.url}${server === undefined ? '' : `, which asks the model server ${server}`}`,
      )
    },
  })
  const client = new DaemonClient(await interrupt.unlessAsked(daemon.address()), () => daemon.address())
  return await run(
    {
      client,
      prompt,
      create: createFor(context, folder, prompt),
      session: await interrupt.unlessAsked(sessionFor(client, context, folder)),
      parkWaitMs: context.run.parkWaitMs,
      interrupt,
      isLasting: () => daemon.isLasting,
      onSession: (session) => out.say(sessionLine(session, choice, !goesOn(context))),
    },
    out,
  )
}

/** Names the model, unless that was done a line above, and its server where that is known here. Pure. */
export function sessionLine({ id, model }: Session, choice: ModelChoice | undefined, isToldBefore: boolean): string {
  if (isToldBefore && choice?.name === model) return `session: ${id}`
  return `session: ${id}, model ${model}${choice === undefined ? '' : ` at ${choice.baseUrl}`}`
}

/** What is wrong with a folder or the settings is said before a model is asked. */
function lookAt(folder: string, { out, env, run: { session }, stateDir, loaded }: RunContext): void {
  if (!env['BREAKFALL_URL'] && session === undefined) refuseWide(folder, stateDir)
  const readOnly = 'this folder is read-only for you: the turn can look, but change nothing'
  for (const warning of [...(isWritable(folder) ? [] : [readOnly]), ...tokenWarnings(loaded.config)])
    out.say(out.styleErr('yellow', `warning: ${warning}`))
}

/** That there is nothing to go on with is said before the model that is missing for it. */
async function refuseNothingThere(context: RunContext, folder: string): Promise<void> {
  const { viewer } = await findViewer(context.stateDir, context.env, context.loaded.config.model?.name ?? '')
  using after = new DisposableStack()
  if (Symbol.dispose in viewer) after.use(viewer)
  await sessionFor(viewer, context, folder)
}

const modelWords = ({ name, baseUrl, isGuessed }: ModelChoice): string =>
  isGuessed ? `the first that ${baseUrl} lists, which does not answer yet` : `${name} at ${baseUrl}`

/** Where nobody named the model and a first look found no list, the server is asked until it is known why. */
async function chosen(context: RunContext): Promise<ModelChoice | undefined> {
  const choice = await chooseModel(context.loaded, context.env, listModels)
  if (choice === undefined || !choice.isGuessed || goesOn(context)) return choice
  const name = await firstModel(choice).catch(awayName)
  if (name === null) return choice
  if (name !== undefined) return { ...choice, name, isGuessed: false }
  throw new Fault('invalid_request', {
    error: `the server at ${choice.baseUrl} does not list its models, so name one: --model NAME, or [model] name in your config.toml`,
  })
}

/** Nobody there yet: the turn tries and waits like any other, and its daemon asks for the list again before each try. */
function awayName(thrown: unknown): null {
  if (!isFault(thrown)) throw thrown
  if (thrown.category === 'model_unreachable' || thrown.category === 'network_down') return null
  if (thrown.category !== 'model_auth_failed') throw thrown
  throw thrown.with({ message: { action: NOT_SAVED } })
}

/** No turn has started, so a new key resumes none. */
const NOT_SAVED = 'Nothing started, and your prompt was not saved. Pass --model NAME to save it.'
