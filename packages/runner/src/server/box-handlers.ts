/** Boxes over HTTP. */
import {
  BOX_STATES,
  type BoxState,
  boxCreateSchema,
  EPOCH_HEADER,
  type Network,
  networkAllowSchema,
} from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { readJson } from '@breakfall/wire/node'
import { readHomeFiles } from '../home/home-files.ts'
import { expandAllowList } from '../network/presets.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { epochOf } from './access.ts'
import { page } from './paging.ts'
import {
  type ApiContext,
  boxOf,
  boxToChange,
  boxToEnd,
  epochToChange,
  type Handler,
  keyOf,
  refuseFields,
  refuseWhileClosing,
  type RunnerCall,
} from './handler-context.ts'

type Names =
  | 'createBox'
  | 'checkBox'
  | 'listBoxes'
  | 'getBox'
  | 'startBox'
  | 'stopBox'
  | 'removeBox'
  | 'listProcesses'
  | 'getNetwork'
  | 'setNetwork'
  | 'ownBox'

export function boxHandlers(context: ApiContext): Record<Names, Handler> {
  const { boxes } = context
  return {
    createBox: async (call) => {
      refuseWhileClosing(context)
      const epoch = epochToChange(context, call)
      const create = await readJson(call, boxCreateSchema)
      const prefix = call.params['prefix'] ?? ''
      const allowed = await allowedIn(context, create.network)
      const { workspace } = boxes.design(prefix, create, allowed) // refuses before anything is read in that folder
      const { programs, rules } = context.host
      const files = await readHomeFiles({
        git: programs.git,
        home: rules.home,
        workspace: create.workspace && workspace.path,
      })
      refuseWhileClosing(context)
      const box = boxes.create(prefix, create, epoch, files, allowed)
      return { status: 201, json: box.record }
    },
    checkBox: async (call) => {
      const create = await readJson(call, boxCreateSchema)
      const allowed = await allowedIn(context, create.network)
      return { status: 200, json: boxes.design(call.params['prefix'] ?? '', create, allowed) }
    },
    listBoxes: (call) => {
      const state = stateIn(call.query)
      const all = boxes
        .ofPrefix(call.params['prefix'] ?? '')
        .filter((box) => state === undefined || box.state === state)
      const { items, next } = page(all, (box) => box.id, call.query, RUNNER_DEFAULTS.pageMax)
      return { status: 200, json: { boxes: items.map((box) => box.record), ...(next === undefined ? {} : { next }) } }
    },
    getBox: (call) => ({ status: 200, json: boxOf(context, call).record }),
    listProcesses: (call) => ({ status: 200, json: { processes: boxOf(context, call).processes() } }),
    getNetwork: (call) => ({ status: 200, json: boxOf(context, call).networkView() }),
    setNetwork: async (call) => {
      boxToChange(context, call)
      const network = await readJson(call, networkAllowSchema)
      const allowed = await allowedIn(context, network, 'allow')
      const box = boxToChange(context, call) // asking took time: the box may have another owner by now
      await box.setNetwork(network.allow, allowed ?? [])
      return { status: 200, json: box.networkView() }
    },
    startBox: async (call) => {
      await refuseFields(call)
      const box = boxToChange(context, call)
      box.start()
      return { status: 200, json: box.record }
    },
    stopBox: async (call) => {
      await refuseFields(call)
      const box = boxToEnd(context, call)
      if (isOnlyIfIdle(call.query)) box.requireIdle()
      await box.stop()
      return { status: 200, json: box.record }
    },
    ownBox: async (call) => {
      await refuseFields(call)
      refuseWhileClosing(context)
      const epoch = epochOf(call.req)
      if (epoch === undefined)
        throw invalidRequest([{ field: EPOCH_HEADER, expected: 'the epoch of the new owner', got: 'nothing' }])
      const box = boxes.find(call.params['prefix'] ?? '', call.params['id'] ?? '')
      if (box === undefined) context.host.fences.raise(keyOf(call), epoch)
      else box.admit(epoch, false)
      return { status: 200, json: { epoch } }
    },
    removeBox: async (call) => {
      keepEpochWithoutBox(context, call)
      const box = boxToEnd(context, call)
      if (isOnlyIfIdle(call.query)) box.requireIdle()
      await boxes.remove(box)
      return { status: 204 }
    },
  }
}

// ---- details ----

/** The owner wants no box: a create of an earlier owner that is still under way must not make one. */
function keepEpochWithoutBox(context: ApiContext, call: RunnerCall): void {
  const epoch = epochToChange(context, call)
  const { prefix = '', id = '' } = call.params
  if (epoch !== undefined && context.boxes.find(prefix, id) === undefined) context.host.fences.raise(keyOf(call), epoch)
}

/** The names that the list stands for; undefined if the network is no list. */
async function allowedIn(
  { host }: ApiContext,
  network: Network | undefined,
  field?: string,
): Promise<readonly string[] | undefined> {
  if (typeof network !== 'object') return undefined
  return expandAllowList(network.allow, (preset) => host.presets.names(preset), field)
}

function stateIn(query: URLSearchParams): BoxState | undefined {
  const text = query.get('state')
  if (text === null) return undefined
  const state = BOX_STATES.find((name) => name === text)
  if (state !== undefined) return state
  throw invalidRequest([{ field: 'state', expected: `one of ${BOX_STATES.join(', ')}`, got: text.slice(0, 50) }])
}

const isOnlyIfIdle = (query: URLSearchParams): boolean => query.get('ifIdle') === '1'
