/** `breakfall gateway`: not wired yet while the gateway package is empty. */
import { Fault } from '@breakfall/faults'
export function gatewayCommand(): number {
  throw new Fault('other', { error: 'the gateway is not built yet' })
}
