/** `breakfall run`: chooses the model, the daemon and the session. `run/follow-turn.ts` follows the turn itself. */
import { DaemonClient, RECONNECT_POLICY, type Session } from '@breakfall/client'
import { isFault } from '@breakfall/faults'
import type { ProviderGiven, SessionEvent, Turn } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { unsetKeyVariable } from '../../config/providers.ts'
import { runnerWarnings } from '../../config/runner.ts'
import { findDaemon, type FoundDaemon, oneShotClient } from '../../daemon/find.ts'
import { localRunner } from '../../daemon/local-runner.ts'
import { NO_MODEL } from '../../daemon/options.ts'
import { broughtModel, changeFor, type ChangeOptions, keyForTurn, noModelFault } from '../../model/brought-model.ts'
import { chooseModel, isReachable, type ModelChoice, type ReachableModel } from '../../model/choose.ts'
import { firstListedModel, listModels, noListFault } from '../../model/list.ts'
import { currentFolder } from '../../process/current-folder.ts'
import { findViewer } from '../../sessions/viewer.ts'
import { Interrupt } from '../../terminal/interrupt.ts'
import { cancelWithoutDaemon } from '../cancel-resume/cancel-resume.ts'
import { TurnAdoption } from './adopt-turn.ts'
import { letDownloadsEnd } from './downloads.ts'
import { followTurn } from './follow-turn.ts'
import { refuseMounts } from './mounts.ts'
import {
  isContinuing,
  modelFlag,
  refuseContradictions,
  type RunContext,
  type RunOptions,
  serverFlags,
} from './options.ts'
import { readPrompt } from './prompt.ts'
import { howToSetModel, rehearse, runWithoutPrompt } from './rehearse.ts'
import { childDaemonFor, RunDaemon } from './run-daemon.ts'
import { boxToCreate, sessionToContinue, sessionToCreate } from './session.ts'
import { isWritable, refuseUnsafeFolder } from './work-folder.ts'

export async function runCommand(context: Context, options: RunOptions, words: readonly string[]): Promise<number> {
  context.out.surviveClosedStdout()
  using interrupt = new Interrupt(context.out)
  const run = { ...context, interrupt, options }
  const prompt = await interrupt.unlessInterrupted(readPrompt(words, interrupt.signal))
  refuseContradictions(run, prompt)
  if (options.rehearsal === true) return await rehearse(run, prompt)
  if (prompt !== undefined || isContinuing(run)) return await runHere(run, prompt)
  return await runWithoutPrompt(run)
}

// ---- details, in the order they are used above ----

async function runHere(context: RunContext, prompt: string | undefined): Promise<number> {
  const { out, interrupt, config, options } = context
  interrupt.surviveHangUp()
  const folder = currentFolder()
  checkFolder(folder, context)
  refuseMounts(context)
  boxToCreate(context, folder) // refuses flags that cannot be used, before anything starts
  const running = await interrupt.unlessInterrupted(findDaemon(config))
  const choice = await interrupt.unlessInterrupted(chosenModel(context, running))
  if (choice?.kind === 'none' && !isContinuing(context)) throw noModelFault(config, howToSetModel(config.checkout))
  if (choice?.kind === 'none') await refuseIfNothingToContinue(context, folder, prompt)
  const announcedModel = choice !== undefined && isReachable(choice) && !isContinuing(context) ? choice : undefined
  if (announcedModel !== undefined) out.say(`model: ${modelText(announcedModel)}`)
  const unsetKey =
    announcedModel === undefined || running !== undefined
      ? undefined
      : unsetKeyVariable(announcedModel, config.loaded.config)
  if (unsetKey !== undefined) out.say(out.styleErr('yellow', `warning: ${unsetKey} is not set, so no key is sent`))
  await using daemon = new RunDaemon({
    place: config,
    childOptions: childDaemonFor(context, folder),
    onTheirs: ({ address: { url }, pid }) =>
      out.say(`using the daemon at ${url}${pid === undefined ? '' : ` (pid ${pid})`}`),
  })
  const address = await interrupt.unlessInterrupted(daemon.address())
  const keyFor = (turn: Turn): ProviderGiven | undefined => keyForTurn(turn, config)
  const adoption = new TurnAdoption(address, { find: () => daemon.address(), keyFor })
  const client = new DaemonClient(address, { locate: () => adoption.locate(), policy: RECONNECT_POLICY })
  const session = await interrupt.unlessInterrupted(sessionToContinue(client, context, { folder, prompt }))
  const isNamed = modelFlag(options) !== undefined && prompt !== undefined // an unfinished turn keeps its model
  const code = await followTurn(
    {
      client,
      prompt,
      create: sessionToCreate(context, folder, prompt, broughtModel(choice, config)),
      session:
        session === undefined || options.attach !== undefined
          ? session
          : await withChange(client, session, { choice, config, isNamed }),
      attach: options.attach,
      isDetached: options.detach,
      onLeave: () => daemon.leaveTurn(),
      parkWaitMs: options.parkWaitMs,
      answer: options.answer,
      sameFolder: options.share === true ? 'share' : config.sameFolder,
      interrupt,
      isLasting: () => daemon.isLasting,
      cancelIfAway: (turnId, reason) =>
        daemon.isLasting ? cancelWithoutDaemon(config, turnId, reason) : Promise.resolve(undefined), // its own restarts
      onSession: (used) => out.say(sessionLine(used, announcedModel?.name)),
      onTurn: (turnId) => adoption.follow(turnId),
      keyFor,
      serverFlags: serverFlags(options),
      onEvent: runnerNotice(context),
    },
    out,
  )
  if (!daemon.isLasting && !daemon.leavesTurn && !interrupt.signal.aborted)
    await letDownloadsEnd({ client: oneShotClient(address), servers: config.outside.mcp, interrupt, out })
  return code
}

/** Names the runner's process at the first call of a tool, for anyone who wants to end it and see what a run survives. */
function runnerNotice({ config, out }: RunContext): (event: SessionEvent) => void {
  let isSaid = out.json || config.daemon.kind !== 'local' || config.runner.kind !== 'local'
  return ({ type }) => {
    const runner = isSaid || !IN_BOX.has(type) ? undefined : localRunner(config.stateDir)
    if (runner === undefined) return
    isSaid = true
    out.say(`runner: pid ${runner.pid}`)
  }
}

const IN_BOX: ReadonlySet<SessionEvent['type']> = new Set(['tool-call', 'tool-output', 'tool-result'])

/** A continued session keeps its provider and its model, unless a flag names others. It gets this terminal's key for its provider. */
async function withChange(client: DaemonClient, session: Session, given: ChangeOptions): Promise<Session> {
  const change = changeFor(session, given)
  return change === undefined ? session : client.changeSession(session.id, change)
}

/** Names the session's model and its server, unless the line before did. Pure. */
export function sessionLine(
  { id, model, provider }: Pick<Session, 'id' | 'model' | 'provider'>,
  announcedModel: string | undefined,
): string {
  if (announcedModel === model) return `session: ${id}`
  const { baseUrl = '' } = provider ?? {}
  return `session: ${id}, model ${model}${/^https?:/.test(baseUrl) ? ` at ${baseUrl}` : ''}`
}

/** Reports what is wrong with the folder or the settings before a model is asked. */
function checkFolder(folder: string, { out, config, options }: RunContext): void {
  if (config.daemon.kind === 'local' && options.session === undefined) refuseUnsafeFolder(folder, config.stateDir)
  const readOnly = 'you cannot write to this folder: the turn can read files, but not change them'
  for (const warning of [
    ...(isWritable(folder) ? [] : [readOnly]),
    ...runnerWarnings(config.runner),
    ...unsetWarnings(config.box.unset),
  ])
    out.say(out.styleErr('yellow', `warning: ${warning}`))
}

const unsetWarnings = (names: readonly string[]): readonly string[] =>
  names.map((name) => `[box] passEnv names ${name}, which is not set here, so the box does not get it`)

/** Without a model there is still the question whether the session exists: that error comes first. */
async function refuseIfNothingToContinue(
  context: RunContext,
  folder: string,
  prompt: string | undefined,
): Promise<void> {
  const { viewer } = await findViewer(context.config, context.config.modelName ?? '')
  using closing = new DisposableStack()
  if (Symbol.dispose in viewer) closing.use(viewer)
  await sessionToContinue(viewer, context, { folder, prompt })
}

const modelText = ({ name, baseUrl, origin }: ReachableModel): string =>
  name === undefined
    ? `the first model that ${baseUrl} lists, once it answers (${origin})`
    : `${name} at ${baseUrl} (${origin})`

/**
 * The model of this terminal's own settings. If it sets nothing and a daemon has a model, undefined: the daemon's. If it names no
 * model for the daemon's own server, the daemon's model. If no model is named and the first request found no list, asks the server
 * again until it is clear why.
 */
async function chosenModel(context: RunContext, running: FoundDaemon | undefined): Promise<ModelChoice | undefined> {
  const { model } = context.config
  const daemons = running === undefined ? undefined : await oneShotClient(running.address).model().catch(ifStopping)
  if (model.kind === 'unset' && daemons !== undefined && daemons.baseUrl !== NO_MODEL) return undefined
  if (model.kind === 'remote' && model.name === undefined && daemons !== undefined && isSameUrl(model, daemons))
    return { ...model, name: daemons.name }
  const choice = await chooseModel(model, listModels)
  if (choice.kind !== 'remote' || choice.name !== undefined || isContinuing(context)) return choice
  const name = await firstListedModel(choice).catch(ifUnreachable)
  if (name === 'unreachable') return choice
  if (name !== undefined) return { ...choice, name }
  throw await noListFault(choice)
}

/** A daemon of another run may stop at this moment. Then this run starts its own. */
function ifStopping(thrown: unknown): undefined {
  if (!isFault(thrown) || thrown.category !== 'daemon_unreachable') throw thrown
}

const isSameUrl = (a: { readonly baseUrl: string }, b: { readonly baseUrl: string }): boolean =>
  a.baseUrl.replace(/\/+$/, '') === b.baseUrl.replace(/\/+$/, '')

/** The server does not answer yet. The turn retries and parks like any other, and its daemon asks for the list again. */
function ifUnreachable(thrown: unknown): 'unreachable' {
  if (!isFault(thrown)) throw thrown
  if (thrown.category === 'model_unreachable' || thrown.category === 'network_down') return 'unreachable'
  if (thrown.category !== 'model_auth_failed') throw thrown
  const { advice = 'Set a valid key.' } = thrown.report.message ?? {}
  throw thrown.with({
    message: { action: 'Nothing started.', advice: `${advice.replace(/\.$/, '')} and run this again. ${KEPT}` },
  })
}

const KEPT = '(With --model NAME the prompt is kept as a parked turn.)'
