/** Whether the conversation follows its end. A person who scrolls up, and every jump to a place, ends that at once. */
import { signal } from '@preact/signals'

export const following = signal(true)
