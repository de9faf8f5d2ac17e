//! What a transaction offers for its gas: by speed, by what others paid lately, under caps.
//!
//! **Rule:** a variant offers enough more on both fields that every client takes it for the other's
//! place: an eighth, where the strictest wants a tenth.
//! **Rule:** no offer is above the cap, whatever nodes say.

pub use landfall_core::evm::Speed;
use serde::{Deserialize, Serialize};

/// The percentile of tips in recent blocks that is offered, as `eth_feeHistory` is asked.
pub fn percentile(speed: Speed) -> u8 {
    match speed {
        Speed::Slow => 10,
        Speed::Average => 40,
        Speed::Fast => 70,
        Speed::Fastest => 90,
    }
}

/// How many full blocks in a row the offer outlasts: each raises the base fee by an eighth.
fn full_blocks(speed: Speed) -> u32 {
    match speed {
        Speed::Slow => 2,
        Speed::Average => 4,
        Speed::Fast => 6,
        Speed::Fastest => 8,
    }
}

/// What gas costs at the moment, as the nodes have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Market {
    /// A chain with EIP-1559.
    Base {
        /// Of the next block.
        base_fee: u128,
        /// What was tipped lately, at the speed's percentile.
        tip: u128,
    },
    /// A chain without.
    Legacy { gas_price: u128 },
}

/// Bounds of our own, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    pub fee_max: u128,
    pub tip_max: u128,
    /// Where a chain tips nobody, something must be offered.
    pub tip_min: u128,
}

/// What is offered, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    Base { fee_max: u128, tip_max: u128 },
    Legacy { gas_price: u128 },
}

impl Offer {
    /// What the market asks for at this speed, under the caps.
    pub fn at(market: Market, speed: Speed, caps: &Caps) -> Offer {
        match market {
            Market::Base { base_fee, tip } => {
                let tip_max = tip.max(caps.tip_min).min(caps.tip_max);
                let outlasting = (0..full_blocks(speed)).fold(base_fee, |fee, _| grown(fee));
                let fee_max = outlasting.saturating_add(tip_max).min(caps.fee_max);
                Offer::Base { fee_max, tip_max: tip_max.min(fee_max) }
            }
            Market::Legacy { gas_price } => {
                let quicker = match speed {
                    Speed::Slow => gas_price,
                    Speed::Average => gas_price.saturating_add(gas_price / 10),
                    Speed::Fast => gas_price.saturating_add(gas_price / 4),
                    Speed::Fastest => gas_price.saturating_add(gas_price / 2),
                };
                Offer::Legacy { gas_price: quicker.min(caps.fee_max) }
            }
        }
    }

    /// An offer that takes the place of this one: what the market asks for, but an eighth more on
    /// each field at least. None if that is above the caps.
    pub fn outbid(self, market: Market, speed: Speed, caps: &Caps) -> Option<Offer> {
        let asked = Offer::at(market, speed, caps);
        let better = match (self, asked) {
            (Offer::Base { fee_max, tip_max }, Offer::Base { fee_max: fee, tip_max: tip }) => {
                Offer::Base { fee_max: grown(fee_max).max(fee), tip_max: grown(tip_max).max(tip) }
            }
            (Offer::Legacy { gas_price }, Offer::Legacy { gas_price: price }) => {
                Offer::Legacy { gas_price: grown(gas_price).max(price) }
            }
            // A chain has changed its manner meanwhile: what is stored is sent on.
            _ => return None,
        };
        let within = match better {
            Offer::Base { fee_max, tip_max } => fee_max <= caps.fee_max && tip_max <= caps.tip_max,
            Offer::Legacy { gas_price } => gas_price <= caps.fee_max,
        };
        within.then_some(better)
    }

    /// Whether it would get into a block now, as far as the market tells.
    pub fn suffices(self, market: Market) -> bool {
        match (self, market) {
            (Offer::Base { fee_max, tip_max }, Market::Base { base_fee, tip }) => {
                fee_max >= base_fee.saturating_add(tip) && tip_max >= tip
            }
            (Offer::Legacy { gas_price }, Market::Legacy { gas_price: asked }) => {
                gas_price >= asked
            }
            _ => true,
        }
    }

    /// The most that one unit of gas can cost.
    pub fn most(self) -> u128 {
        match self {
            Offer::Base { fee_max, .. } => fee_max,
            Offer::Legacy { gas_price } => gas_price,
        }
    }
}

/// An eighth more, and at least one.
fn grown(fee: u128) -> u128 {
    fee.saturating_add(fee.div_ceil(8).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;
    const CAPS: Caps = Caps { fee_max: 500 * GWEI, tip_max: 20 * GWEI, tip_min: GWEI / 10 };

    fn base(base_fee: u128, tip: u128) -> Market {
        Market::Base { base_fee: base_fee * GWEI, tip: tip * GWEI }
    }

    fn fields(offer: Offer) -> (u128, u128) {
        match offer {
            Offer::Base { fee_max, tip_max } => (fee_max, tip_max),
            Offer::Legacy { gas_price } => (gas_price, gas_price),
        }
    }

    #[test]
    fn who_is_in_a_hurry_offers_more_and_outlasts_more_full_blocks() {
        let offers = Speed::ALL.map(|speed| fields(Offer::at(base(100, 2), speed, &CAPS)).0);
        assert!(offers.is_sorted() && offers[0] > 100 * GWEI, "{offers:?}");
        let (fee_max, _) = fields(Offer::at(base(100, 2), Speed::Slow, &CAPS));
        let full_twice = 100 * GWEI * 81 / 64;
        assert!(fee_max >= full_twice + 2 * GWEI, "{fee_max}");
    }

    #[test]
    fn no_offer_is_above_the_caps_and_the_tip_is_never_above_the_fee() {
        for speed in Speed::ALL {
            for market in [base(0, 0), base(1, 0), base(100_000, 5), base(3, 100_000)] {
                let (fee_max, tip_max) = fields(Offer::at(market, speed, &CAPS));
                assert!(fee_max <= CAPS.fee_max && tip_max <= CAPS.tip_max && tip_max <= fee_max);
                assert!(tip_max >= CAPS.tip_min.min(fee_max), "something is tipped");
            }
            let absurd = Market::Base { base_fee: u128::MAX, tip: u128::MAX };
            assert_eq!(fields(Offer::at(absurd, speed, &CAPS)), (CAPS.fee_max, CAPS.tip_max));
        }
    }

    #[test]
    fn a_better_offer_is_an_eighth_higher_on_both_fields_or_none() {
        let mut offer = Offer::at(base(10, 1), Speed::Average, &CAPS);
        let mut raised = 0;
        while let Some(better) = offer.outbid(base(10, 1), Speed::Average, &CAPS) {
            let ((fee, tip), (fee_now, tip_now)) = (fields(offer), fields(better));
            assert!(fee_now * 8 >= fee * 9 && tip_now * 8 >= tip * 9, "{offer:?} {better:?}");
            assert!(fee_now <= CAPS.fee_max && tip_now <= CAPS.tip_max);
            (offer, raised) = (better, raised + 1);
        }
        assert!(raised > 10, "{raised} times until the cap");
    }

    #[test]
    fn a_better_offer_follows_a_market_that_has_risen() {
        let offer = Offer::at(base(10, 1), Speed::Average, &CAPS);
        let risen = base(100, 5);
        assert!(!offer.suffices(risen));
        let better = offer.outbid(risen, Speed::Average, &CAPS).unwrap();
        assert!(better.suffices(risen));
    }

    #[test]
    fn a_chain_without_a_base_fee_is_offered_a_price() {
        let market = Market::Legacy { gas_price: 8 * GWEI };
        let offer = Offer::at(market, Speed::Average, &CAPS);
        assert!(offer.suffices(market) && offer.most() < 10 * GWEI);
        let better = offer.outbid(market, Speed::Average, &CAPS).unwrap();
        assert!(better.most() * 8 >= offer.most() * 9);
        assert_eq!(offer.outbid(base(1, 1), Speed::Average, &CAPS), None, "another manner");
    }

    #[test]
    fn speeds_are_known_by_their_names() {
        for speed in Speed::ALL {
            assert_eq!(Speed::parse(speed.as_str()), Some(speed));
        }
        assert_eq!(Speed::parse("quick"), None);
        assert_eq!(Speed::default(), Speed::Average);
    }
}
