/** Naming a model server gets that server or an error, even if a running daemon uses another one. */
import type { DaemonAddress } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import { oneShotClient } from '../daemon/find.ts'
import type { RunContext } from './options.ts'

/** The daemon's model server. Throws if the user named another one. Undefined if the daemon does not tell. */
export async function agreedServer(context: RunContext, address: DaemonAddress): Promise<string | undefined> {
  const { baseUrl, api, profile } = context.options
  const flag =
    baseUrl !== undefined ? '--base-url' : api !== undefined ? '--api' : profile !== undefined ? '--profile' : undefined
  if (flag !== undefined) throw otherServer(address.url, flag)
  const theirs = await oneShotClient(address)
    .model()
    .then((model) => model.baseUrl, ifUnknown)
  if (theirs === undefined || !/^https?:/.test(theirs)) return undefined // it may have none
  const { model } = context.config
  const namedBy = model.kind === 'remote' ? model.serverNamedBy : undefined
  if (model.kind === 'remote' && namedBy !== undefined && normalized(model.baseUrl) !== normalized(theirs))
    throw otherServer(address.url, `${namedBy} (${model.baseUrl})`, theirs)
  return theirs
}

// ---- details, in the order they are used above ----

const otherServer = (daemon: string, what: string, server?: string): Fault =>
  new Fault('invalid_request', {
    error: `The daemon at ${daemon} uses its own model server${server === undefined ? '' : `, ${server}`}, and ${what} cannot change that; omit it, or use another --state-dir`,
  })

/** It has just gone, or is too old to answer: the next call reports it. */
function ifUnknown(error: unknown): undefined {
  if (!isFault(error)) throw error
}

const normalized = (url: string): string => (URL.canParse(url) ? new URL(url).href.replace(/\/+$/, '') : url)
