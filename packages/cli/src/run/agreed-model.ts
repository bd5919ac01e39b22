/** Whoever names a model server gets that one or an error, also where a daemon runs that has one of its own. */
import { Fault, isFault } from '@breakfall/faults'
import { type DaemonAddress, DaemonClient } from '../daemon/client.ts'
import { MODEL_FLAGS, type RunContext } from './options.ts'

/** The daemon's model server, which is the one that was named here, if any. Undefined where the daemon does not tell. */
export async function agreedServer(context: RunContext, address: DaemonAddress): Promise<string | undefined> {
  const flag = (['baseUrl', 'api', 'profile'] as const).find((key) => context.options[key] !== undefined)
  if (flag !== undefined) throw otherServer(address.url, MODEL_FLAGS[flag])
  const theirs = await new DaemonClient(address).model().then(({ baseUrl }) => baseUrl, untold)
  if (theirs === undefined || !/^https?:/.test(theirs)) return undefined // it may have none
  const named = namedServer(context)
  if (named !== undefined && normal(named.baseUrl) !== normal(theirs))
    throw otherServer(address.url, `${named.by} (${named.baseUrl})`, theirs)
  return theirs
}

// ---- details, in the order they are used above ----

const otherServer = (daemon: string, what: string, server?: string): Fault =>
  new Fault('invalid_request', {
    error: `the daemon at ${daemon} has a model server of its own${server === undefined ? '' : `, ${server}`}, which ${what} cannot change; leave it out, or use another --state-dir`,
  })

/** It has just gone, or knows no such question: whoever works with it next finds out what is wrong. */
function untold(error: unknown): undefined {
  if (!isFault(error)) throw error
}

/** A key alone names no server: it is set for many programs. */
function namedServer({ loaded, env }: RunContext): { readonly baseUrl: string; readonly by: string } | undefined {
  const { model } = loaded.config
  if (model?.serve !== undefined) return undefined // wherever the daemon has started it
  if (model?.baseUrl !== undefined)
    return { baseUrl: model.baseUrl, by: loaded.origins.get('model.baseUrl') ?? 'model.baseUrl' }
  const openAi = env['OPENAI_BASE_URL'] ?? ''
  if (openAi !== '') return { baseUrl: openAi, by: 'OPENAI_BASE_URL' }
  const anthropic = env['ANTHROPIC_BASE_URL'] ?? ''
  const isAsked = anthropic !== '' && !env['OPENAI_API_KEY'] && (env['ANTHROPIC_API_KEY'] ?? '') !== ''
  return isAsked ? { baseUrl: anthropic, by: 'ANTHROPIC_BASE_URL' } : undefined
}

const normal = (url: string): string => (URL.canParse(url) ? new URL(url).href.replace(/\/+$/, '') : url)
