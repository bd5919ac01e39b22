/** `breakfall gateway`: not wired yet while the gateway package is empty. */
import { Fault } from '@breakfall/faults'
import type { Context } from '../program.ts'

export function gatewayCommand(_context: Context): number {
  throw new Fault('other', { error: 'the gateway is not built yet' })
}
