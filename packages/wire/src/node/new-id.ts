/** Ids that sort by time (UUIDv7). Node's own `randomUUIDv7` is missing in Node 22, which the libraries support, and in early releases of 24. */
import { randomUUID } from 'node:crypto'

export function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  const random = randomUUID().slice(15) // what follows the version digit, including the variant
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random}`
}
