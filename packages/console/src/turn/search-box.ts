/** What is typed into the search field: the fleet asks the daemon for it, a turn searches its fold. */
import { signal } from '@preact/signals'

export const searchText = signal('')
