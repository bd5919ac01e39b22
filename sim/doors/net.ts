/** `connect`, for probes that only ask whether an address accepts connections. */
import { EventEmitter } from 'node:events'
import * as real from 'node:net'
import { refused } from '../host/globals.ts'
import { theNetwork } from '../world/network.ts'

export const { BlockList, isIP, isIPv4, isIPv6, SocketAddress } = real
export const createServer = refused('net createServer')
export const createConnection = refused('net createConnection')

/** Sockets are only compared and passed on by code that never runs here. */
export const Socket = refused('net Socket')
export const Server = refused('net Server')

type Target = { readonly host?: string; readonly port?: number | string; readonly signal?: AbortSignal }

export function connect({ host = 'localhost', port = 0, signal }: Target): Probe {
  const probe = new Probe()
  const accepts = theNetwork().accepts(`http://${host}:${port}`)
  const abort = (): void => void probe.emit('error', signal?.reason ?? new Error('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  if (accepts === undefined) return probe
  setTimeout(() => {
    signal?.removeEventListener('abort', abort)
    if (probe.destroyed) return
    if (accepts) probe.emit('connect')
    else probe.emit('error', Object.assign(new Error(`connect ECONNREFUSED ${host}:${port}`), { code: 'ECONNREFUSED' }))
  }, 1)
  return probe
}

class Probe extends EventEmitter {
  destroyed = false

  destroy(): this {
    this.destroyed = true
    return this
  }

  unref(): this {
    return this
  }
}

export default {
  BlockList,
  isIP,
  isIPv4,
  isIPv6,
  SocketAddress,
  createServer,
  createConnection,
  Socket,
  Server,
  connect,
}
