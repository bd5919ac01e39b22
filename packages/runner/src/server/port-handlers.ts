/** Ports of a box on the host, over HTTP. */
import { Fault } from '@breakfall/faults'
import { boxPortCreateSchema } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { readJson } from '@breakfall/wire/node'
import type { Box } from '../box/box.ts'
import { requireRunning } from '../box/states.ts'
import { type ApiContext, boxOf, boxToChange, type Handler, refuseFields } from './handler-context.ts'

export function portHandlers(context: ApiContext): Record<'openPort' | 'listPorts' | 'closePort', Handler> {
  return {
    openPort: async (call) => {
      requirePorts(context, boxToChange(context, call))
      const { port } = await readJson(call, boxPortCreateSchema)
      const box = boxToChange(context, call)
      requireRunning(box.id, box.state)
      await box.openNetwork()
      const open = await box.ports.open(port)
      if (box.state !== 'running') box.ports.closeAll() // it was stopped meanwhile
      requireRunning(box.id, box.state)
      return { status: 201, json: open }
    },
    listPorts: (call) => ({ status: 200, json: { ports: boxOf(context, call).ports.list } }),
    closePort: async (call) => {
      await refuseFields(call)
      const box = boxToChange(context, call)
      const { port = '' } = call.params
      if (/^\d{1,5}$/.test(port) && box.ports.close(Number(port))) return { status: 204 }
      throw new Fault('not_found', {
        error: `Port ${port.slice(0, 20)} of box ${box.id} is not open on the host. Nothing was changed.`,
        boxId: box.id,
      })
    },
  }
}

// ---- details ----

/** Whether the owner of the machine allows it, and the box has its own ports. */
function requirePorts({ host }: ApiContext, { id: boxId, state, stored, network }: Box): void {
  if (!host.allowPorts)
    throw new Fault('forbidden', {
      boundary: 'runner',
      boxId,
      error:
        'This runner does not open ports of boxes on its machine, so nothing was opened. Start it with --allow-ports to allow that.',
      errorRaw: 'ports are not allowed',
    })
  requireRunning(boxId, state)
  const { record } = stored
  const isShared = record.network === 'host' || record.isolation.level === 'process'
  if (isShared) {
    const expected = "a box with its own network: the ports of this one are the machine's own"
    throw invalidRequest([{ field: 'port', expected, got: 'network host' }])
  }
  if (network === undefined)
    throw new Fault('isolation_unavailable', {
      facts: { detail: 'ports on the host need a network that the commands of a box share' },
      errorRaw: 'sharedNetwork is false: nsenter is not on the PATH, or this machine restricts user namespaces',
      boxId,
    })
}
