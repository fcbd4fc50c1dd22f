"""The provider floor: many vendors, one interface. Every vendor quirk ends here."""
